"""What the git program is told by its environment, which is made anew: nothing of this service's own."""

from __future__ import annotations

import os

from app.workspaces.git_folder import GitFolder

Setting = tuple[str, str]

SETTINGS: tuple[Setting, ...] = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("core.multiPackIndex", "false"),  # it can name packs of others
    ("core.commitGraph", "false"),
    ("core.untrackedCache", "false"),  # it can name folders of others
    ("index.threads", "1"),  # more would go by the index's own word on where its entries stand
    ("protocol.allow", "never"),
    ("safe.directory", "*"),
    ("log.showSignature", "false"),
    ("log.mailmap", "false"),
    ("status.branch", "false"),
    ("status.renames", "true"),
    ("status.showUntrackedFiles", "normal"),
    ("status.submoduleSummary", "false"),
    ("color.ui", "false"),
    ("color.status", "false"),
    ("color.diff", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
)


def environment(folder: GitFolder) -> dict[str, str]:
    told = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_DIR": folder.path,
        "GIT_OBJECT_DIRECTORY": folder.objects,
        "GIT_INDEX_FILE": folder.index,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(SETTINGS)),
    }
    if "SYSTEMROOT" in os.environ:
        told["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    if folder.toplevel is not None:
        told["GIT_WORK_TREE"] = "."
    for number, (key, value) in enumerate(SETTINGS):
        told[f"GIT_CONFIG_KEY_{number}"] = key
        told[f"GIT_CONFIG_VALUE_{number}"] = value
    return told
