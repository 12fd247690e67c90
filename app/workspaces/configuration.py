"""A repository's configuration, read without the git program: only what cannot name a command or another place."""

from __future__ import annotations

import re
from collections.abc import Iterator

SIZE_LIMIT_BYTES = 65_536
YES = ("true", "yes", "on", "1")
NO = ("false", "no", "off", "0", "")

_SECTION = re.compile(r"\[\s*([\w.-]+)\s*(?:\"[^\"]*\"\s*)?\]\s*")
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_MARK = re.compile(r"\\.|[\"#;]")
_WORD = re.compile(r"[A-Za-z0-9]{1,16}")
_TOLD_TO_GIT = (
    *("core.abbrev", "core.autocrlf", "core.checkstat", "core.eol", "core.filemode", "core.ignorecase"),
    *("core.precomposeunicode", "core.repositoryformatversion", "core.sparsecheckout", "core.sparsecheckoutcone"),
    *("core.symlinks", "core.trustctime", "diff.renames", "extensions.objectformat", "extensions.refstorage"),
    *("index.sparse", "status.relativepaths", "status.renames", "status.showuntrackedfiles"),
)


def settings_in(config: str) -> Iterator[tuple[str, str]]:
    """``section.key`` and value of each line, in lower case; sections with a name of their own are passed over."""
    section = ""
    for line in config.split("\n"):
        rest = line.strip()
        opening = _SECTION.match(rest)
        if opening:
            section = "" if '"' in opening[0] else opening[1].lower()
            rest = rest[opening.end() :]
        setting = _SETTING.match(_uncommented(rest))
        if setting and section:
            value = setting[2]
            yield f"{section}.{setting[1].lower()}", "true" if value is None else value.strip().strip('"').lower()


def told_to_git(config: str, *, bare: bool) -> str:
    """A configuration with those settings of ``config`` that git needs to read the repository as its owner does.

    Each value is one short word, so that none is a path or a command.
    """
    known = {key: value for key, value in settings_in(config) if key in _TOLD_TO_GIT and _WORD.fullmatch(value)}
    known["core.bare"] = "true" if bare else "false"
    rows = ((*key.split("."), value) for key, value in known.items())
    return "".join(f"[{section}]\n\t{key} = {value}\n" for section, key, value in rows)


def user_in(config: str) -> str:
    """The lines of ``config`` that say who the user is, as they stand there."""
    section, kept = "", []
    for line in config.split("\n"):
        opening = _SECTION.match(line.strip())
        if opening:
            section = opening[0].strip("[] \t").lower()
        if section == "user":
            kept.append(f"{line}\n")
    return "".join(kept)


def uses_worktree_config(config: str) -> bool:
    return dict(settings_in(config)).get("extensions.worktreeconfig") in YES


def _uncommented(line: str) -> str:
    quoted = False
    for mark in _MARK.finditer(line):
        if mark[0] == '"':
            quoted = not quoted
        elif mark[0] in "#;" and not quoted:
            return line[: mark.start()].rstrip()
    return line
