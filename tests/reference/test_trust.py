"""What holds for every tree: the same bytes each time, each file once whatever git says, no power for a clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.asking import ask, inline, local
from tests.reference.programs import first_commit, git
from tests.reference.trees import memory_key

ROOT = Path(__file__).parents[2]
STRATA = [sys.executable, "-c", "from app.cli import main; main()"]

# G01: the same request twice

LAID = (
    ("CLAUDE.md", "TOP @docs/ä.md @docs/Z.md"),
    ("docs/ä.md", "Ä"),
    ("docs/Z.md", "Z"),
    *((f".claude/rules/{name}.md", name) for name in ("b", "B", "ı", "İ", "i", "é", "z", "Ω", "10", "9")),
    (".claude/rules/sub/x.md", '---\npaths: "src/**"\n---\nX'),
    ("src/CLAUDE.md", "NESTED"),
)


def lay(tree: Path, files: tuple[tuple[str, str], ...]) -> None:
    for path, text in files:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")


def request(tree: Path) -> dict[str, Any]:
    body: dict[str, Any] = local(tree, touched=[{"path": str(tree / "src/a.c")}], memory={"walk_stop": str(tree)})
    return body


def test_g01_a_tree_made_in_another_order_gives_the_same_bytes(tmp_path: Path, service: httpx.Client) -> None:
    found = set()
    for order in (LAID, LAID[::-1], sorted(LAID)):
        shutil.rmtree(tmp_path / "p", ignore_errors=True)
        lay(tmp_path / "p", tuple(order))
        found.add(service.post("/v1/context", json=request(tmp_path / "p")).content)
    assert len(found) == 1


@pytest.mark.parametrize(
    "surroundings",
    [
        {"LC_ALL": "C", "PYTHONHASHSEED": "1"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "2"},
        {"LC_ALL": "POSIX", "LANGUAGE": "de", "TZ": "Pacific/Kiritimati"},
        {"TZ": "America/Los_Angeles", "COLUMNS": "20", "TERM": "dumb", "GIT_DIR": "/nowhere"},
    ],
    ids=["c", "turkish", "posix", "elsewhere"],
)
def test_g01_another_process_gives_the_same_bytes(
    surroundings: dict[str, str], tmp_path: Path, service: httpx.Client
) -> None:
    tree = tmp_path / "p"
    lay(tree, LAID)
    git(tree, "init", "--quiet", "--initial-branch=main")
    first_commit(tree)
    served = service.post("/v1/context", json=request(tree)).content
    (tmp_path / "request.json").write_text(json.dumps(request(tree)))
    done = subprocess.run(
        [*STRATA, "context", str(tree), "--request", str(tmp_path / "request.json")],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), **surroundings},
        umask=0o077,
        capture_output=True,
        check=True,
    )
    assert done.stdout == served + b"\n"


# G03: which of two folders' files load, for every way git can join them


def plain(outer: Path) -> Path:
    git(outer, "init", "--quiet", "--initial-branch=main")
    first_commit(outer)
    return outer / "inner"


def nested_worktree(outer: Path) -> Path:
    plain(outer)
    git(outer, "worktree", "add", "--quiet", "-b", "side", str(outer / "inner"), "main")
    return outer / "inner"


def sibling_worktree(outer: Path) -> Path:
    plain(outer / "main")
    git(outer / "main", "worktree", "add", "--quiet", "-b", "side", str(outer / "inner"), "main")
    return outer / "inner"


def bare_parent(outer: Path) -> Path:
    git(outer / ".git", "init", "--quiet", "--bare", "--initial-branch=main")
    first_commit(outer / ".git")
    git(outer / ".git", "worktree", "add", "--quiet", "-b", "side", str(outer / "inner"), "main")
    return outer / "inner"


def submodule(outer: Path) -> Path:
    plain(outer)
    plain(outer.parent / "lib")
    git(
        outer,
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
        str(outer.parent / "lib"),
        "inner",
    )
    assert (outer / "inner" / ".git").is_file()
    return outer / "inner"


def worktree_of_a_submodule(outer: Path) -> Path:
    submodule(outer)
    git(outer / "inner", "worktree", "add", "--quiet", "-b", "side", str(outer / "inner" / "deep"), "main")
    return outer / "inner" / "deep"


def unrelated(outer: Path) -> Path:
    plain(outer)
    git(outer / "inner", "init", "--quiet", "--initial-branch=main")
    return outer / "inner"


def without_git(outer: Path) -> Path:
    return outer / "inner"


def broken(outer: Path) -> Path:
    plain(outer)
    (outer / "inner").mkdir()
    (outer / "inner" / ".git").write_text("gitdir: /nowhere/worktrees/inner\n")
    return outer / "inner"


Layout = Callable[[Path], Path]
MATRIX: tuple[tuple[Layout, bool, bool, str], ...] = (
    (plain, True, True, "outer"),
    (nested_worktree, False, False, "outer"),
    (sibling_worktree, True, False, "outer/main"),
    (bare_parent, True, False, "outer"),
    (submodule, True, False, "outer/inner"),
    (worktree_of_a_submodule, True, False, "outer/.git/modules/inner"),
    (unrelated, True, False, "outer/inner"),
    (without_git, True, False, "outer/inner"),
    (broken, True, False, "outer/inner"),
)
"""How the folders are joined; whether the outer one's project files load, whether the inner one may include them; whose
notes they are."""


@pytest.mark.parametrize("row", MATRIX, ids=[row[0].__name__ for row in MATRIX])
def test_g03_each_file_loads_once_however_git_joins_the_folders(
    row: tuple[Layout, bool, bool, str], tmp_path: Path, service: httpx.Client
) -> None:
    layout, outer_loads, may_include, owner = row
    outer = tmp_path / "outer"
    outer.mkdir()
    inner = layout(outer)
    up = os.path.relpath(outer, inner)
    for folder, name in ((outer, "OUTER"), (inner, "INNER")):
        lay(
            folder,
            (
                ("CLAUDE.md", f"{name} @{up}/docs.md" if name == "INNER" else name),
                (".claude/rules/r.md", f"{name} RULE"),
                ("CLAUDE.local.md", f"{name} LOCAL"),
            ),
        )
    lay(outer, (("docs.md", "DOCS"),))
    (inner / "AGENTS.md").symlink_to("CLAUDE.md")
    home = tmp_path / "home"
    key = memory_key(str(tmp_path / owner))
    lay(home, ((f".claude/projects/{key}/memory/MEMORY.md", "NOTES"),))
    body = local(inner, memory={"walk_stop": str(outer), "agents_md": "both"})
    body["workspace"]["home"] = str(home)
    answer = ask(service, body)
    found = [file["content"].partition(" @")[0] for file in answer["memory"]["files"]]
    assert found == [
        *(["OUTER", "OUTER RULE"] if outer_loads else []),
        "OUTER LOCAL",
        *(["INNER", "DOCS"] if may_include else ["INNER"]),
        *("INNER RULE", "INNER LOCAL", "NOTES"),
    ]
    reasons = {row["path"]: row["reason"] for row in answer["memory"]["report"] if row["reason"] != "not_found"}
    assert reasons[str(inner / "AGENTS.md")] == "already_loaded"
    assert reasons.get(str(outer / "docs.md")) == (None if may_include else "external")
    assert reasons.get(str(outer / "CLAUDE.md")) == (None if outer_loads else "worktree_duplicate")


# G05: a clone that means harm


MANAGED = {"/etc/claude-code/CLAUDE.md": "MANAGED", "/etc/claude-code/.claude/rules/r.md": "MANAGED RULE"}
USER = {"/home/dev/.claude/CLAUDE.md": "USER"}
SECRETS = {"/home/dev/.ssh/id.md": "SECRET", "/home/dev/secret.md": "SECRET", "/home/other/secret.md": "SECRET"}


def clone(settings: dict[str, Any] | None = None, **files: Any) -> dict[str, Any]:
    """A request for a working directory that came from somebody else, with everything there is to steal."""
    own = {"/home/dev/p/.claude/settings.json": json.dumps(settings)} if settings else {}
    body: dict[str, Any] = inline({**MANAGED, **USER, **SECRETS, **own, **files})
    body["workspace"]["git"] = {"toplevel": "/home/dev/p"}
    return body


def everything(answer: dict[str, Any]) -> str:
    return json.dumps([answer["request"], answer["memory"]["files"], answer["memory"]["attachments"]])


@pytest.mark.parametrize(
    "written",
    [
        "@~/secret.md",
        "@/home/dev/secret.md",
        "@../secret.md",
        "@docs/../../secret.md",
        "@./././../secret.md",
        "@link.md",
        "@folder/secret.md",
        "@folder/../secret.md",
        "@ok.md",
        "@~/.ssh/id.md",
    ],
)
def test_g05a_a_clone_includes_nothing_from_outside_without_consent(written: str, service: httpx.Client) -> None:
    files = {
        "/home/dev/p/CLAUDE.md": written,
        "/home/dev/p/CLAUDE.local.md": written,
        "/home/dev/p/.claude/rules/r.md": "@../../../secret.md",
        "/home/dev/p/sub/CLAUDE.md": "@../../secret.md",
        "/home/dev/p/link.md": {"link": "/home/dev/secret.md"},
        "/home/dev/p/folder": {"link": "/home/other"},
        "/home/dev/p/ok.md": "@~/secret.md",
    }
    body = clone(**files) | {"touched": [{"path": "/home/dev/p/sub/x"}]}
    answer = ask(service, body)
    assert "SECRET" not in everything(answer)
    withheld = {row["reason"] for row in answer["memory"]["report"] if row["verdict"] == "withheld"}
    assert withheld == {"external"}
    allowed = ask(service, body | {"memory": {"allow_external_includes": True}})
    assert "SECRET" in everything(allowed)


@pytest.mark.parametrize("folder", ["/home/dev/evil", "~/evil", "./evil", "../evil"])
def test_g05b_a_clone_does_not_move_the_notes(folder: str, service: httpx.Client) -> None:
    notes = {
        "/home/dev/.claude/projects/-home-dev-p/memory/MEMORY.md": "NOTES",
        "/home/dev/evil/MEMORY.md": "EVIL",
        "/home/dev/p/evil/MEMORY.md": "EVIL",
    }
    answer = ask(service, clone({"autoMemoryDirectory": folder}, **notes))
    assert "EVIL" not in everything(answer)
    assert answer["memory"]["files"][-1]["content"] == "NOTES"
    assert [warning["code"] for warning in answer["warnings"]] == ["settings_ignored"]


@pytest.mark.parametrize("pattern", ["**", "/**", "/etc/**", "/etc/claude-code/CLAUDE.md", "**/CLAUDE.md", "**/*.md"])
def test_g05c_a_clone_does_not_hide_managed_text(pattern: str, service: httpx.Client) -> None:
    answer = ask(service, clone({"claudeMdExcludes": [pattern], "memory": {"enabled": False}, "bare": True}))
    assert [file["content"] for file in answer["memory"]["files"]][:2] == ["MANAGED", "MANAGED RULE"]


def test_g05c_nor_does_a_text_of_its_own_stand_in_for_it(service: httpx.Client) -> None:
    files = {"/home/dev/p/CLAUDE.md": {"link": "/etc/claude-code/CLAUDE.md"}, "/home/dev/p/x.md": "x"}
    (first, *_) = ask(service, clone(**files))["memory"]["files"]
    assert (first["path"], first["type"]) == ("/etc/claude-code/CLAUDE.md", "Managed")


@pytest.mark.parametrize("key", ["agents_md", "agentsMd", "memory.agents_md", "claudeMdMode"])
@pytest.mark.parametrize("mode", ["both", "fallback", "claude-md-and-agents-md", True])
def test_g05d_a_clone_does_not_turn_on_other_files(key: str, mode: Any, service: httpx.Client) -> None:
    settings = {key: mode, "memory": {"agents_md": mode}, "env": {"STRATA_AGENTS_MD": mode}}
    answer = ask(service, clone(settings, **{"/home/dev/p/AGENTS.md": "AGENTS"}))
    assert "AGENTS" not in everything(answer)


@pytest.mark.parametrize("key", ["configDir", "config_dir", "CLAUDE_CONFIG_DIR", "managed_dir", "home"])
def test_g05e_a_clone_does_not_move_the_configuration(key: str, service: httpx.Client) -> None:
    settings = {key: "/home/dev/p/own", "env": {"CLAUDE_CONFIG_DIR": "/home/dev/p/own", "HOME": "/home/dev/p/own"}}
    files = {"/home/dev/p/own/CLAUDE.md": "OWN", "/home/dev/p/own/.claude/CLAUDE.md": "OWN"}
    answer = ask(service, clone(settings, **files))
    assert [file["content"] for file in answer["memory"]["files"]] == ["MANAGED", "MANAGED RULE", "USER"]


def test_g05_a_clone_names_no_folders_to_read(service: httpx.Client) -> None:
    settings = {"additionalDirectories": ["/home/other"], "permissions": {"additionalDirectories": ["/home/other"]}}
    body = clone(settings, **{"/home/other/CLAUDE.md": "OTHER"}) | {"memory": {"from_additional_directories": True}}
    assert "OTHER" not in everything(ask(service, body))


def test_g05_a_clones_rules_fire_for_its_own_files_only(service: httpx.Client) -> None:
    body = clone(**{"/home/dev/p/.claude/rules/r.md": '---\npaths: "../**"\n---\nR'})
    answer = ask(service, body | {"touched": [{"path": "/home/dev/secret.md"}]})
    assert answer["memory"]["attachments"] == []
