"""Every reference case of layer 2, over HTTP, from each kind of workspace that can hold it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.reference.cases import CASES, GIT, INLINE, LEFT_OUT_OF_GIT, LOCAL, Case
from tests.reference.commits import commit
from tests.reference.programs import git
from tests.reference.trees import ALSO_A_REPOSITORY, BARE_PLACES, LOOSE_GIT_FILES, Tree


def by_id(cases: tuple[Case, ...]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def ask(service: httpx.Client, request: dict[str, Any]) -> dict[str, Any]:
    answer = service.post("/v1/context", json=request)
    assert answer.status_code == 200, answer.text
    memory: dict[str, Any] = answer.json()["memory"]
    return memory


def comparable_file(answered: dict[str, Any], wanted: dict[str, Any] | None) -> dict[str, Any]:
    """A file of the answer in the words of the case; one that has to be cut off says so when it is."""
    told = {"path": answered["path"], "type": answered["type"]}
    content = answered["content"].strip()
    if wanted is None or not wanted.get("truncated"):
        return told | {"content": content}
    start = wanted["content_starts"]
    return told | {"content_starts": content[: len(start)], "truncated": len(content) > len(start)}


def check(case: Case, memory: dict[str, Any]) -> None:
    wanted = case["expect"]["memory"]
    padded = [*wanted, *[None] * len(memory["files"])]
    assert [comparable_file(*pair) for pair in zip(memory["files"], padded, strict=False)] == wanted
    open_ends = case["expect"].get("ignore_attachments", [])
    arrived = [{name: each[name] for name in ("trigger", "path", "content")} for each in memory["attachments"]]
    assert [each for each in arrived if each["path"] not in open_ends] == [
        each for each in case["expect"]["attachments"] if each["path"] not in open_ends
    ]


@by_id(INLINE)
def test_files_in_the_request_give_the_expected_memory(case: Case, service: httpx.Client) -> None:
    check(case, ask(service, case["request"]))


@by_id(LOCAL)
def test_files_on_disk_give_the_expected_memory(case: Case, service: httpx.Client, tree: Tree) -> None:
    check(case, tree.back(ask(service, tree.lay(case))))


@by_id(GIT)
def test_files_of_a_commit_give_the_expected_memory(case: Case, service: httpx.Client, tmp_path: Path) -> None:
    check(case, ask(service, commit(case, tmp_path / "case.git")))


@pytest.mark.parametrize("place", BARE_PLACES)
def test_a_bare_repository_hides_nothing_wherever_it_lies(place: str, service: httpx.Client, tree: Tree) -> None:
    (case,) = (case for case in CASES if case["id"] == "c-bare-parent")
    check(case, tree.back(ask(service, tree.lay(case, place))))


def test_no_case_is_lost() -> None:
    assert [len(CASES), len({case["id"] for case in CASES}), len(INLINE), len(LOCAL), len(GIT)] == [
        157,
        157,
        157,
        157,
        81,
    ]


def test_every_written_rule_names_a_case() -> None:
    named = {*LEFT_OUT_OF_GIT, *ALSO_A_REPOSITORY, *LOOSE_GIT_FILES}
    assert named <= {case["id"] for case in CASES}


def test_a_tree_on_disk_has_no_path_of_the_case_left_in_its_files(tree: Tree) -> None:
    for case in CASES:
        for entry in case["request"]["workspace"]["files"].values():
            if isinstance(entry, str):
                rewritten = tree.rewritten(entry)
                assert "/home/dev" not in rewritten.replace(f"{tree.root}/home/dev", "")
                assert tree.back(rewritten) == entry


@by_id(tuple(case for case in LOCAL if "git" in case["request"]["workspace"]))
def test_repositories_on_disk_are_as_the_case_says(case: Case, tree: Tree) -> None:
    cwd = Path(tree.lay(case)["workspace"]["cwd"])
    known = case["request"]["workspace"]["git"]
    shared = Path(git(cwd, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    assert tree.back(git(cwd, "rev-parse", "--show-toplevel")) == known["toplevel"]
    assert tree.back(str(shared.parent)) == known.get("main_toplevel", known["toplevel"])
    assert git(shared, "rev-parse", "--is-bare-repository") == str(known.get("bare", False)).lower()


@by_id(tuple(case for case in LOCAL if "git" not in case["request"]["workspace"]))
def test_a_tree_without_a_repository_has_none(case: Case, tree: Tree) -> None:
    cwd = Path(tree.lay(case)["workspace"]["cwd"])
    with pytest.raises(subprocess.CalledProcessError):
        git(cwd, "rev-parse", "--show-toplevel")


@by_id(GIT)
def test_a_commit_holds_the_files_of_its_case(case: Case, tmp_path: Path) -> None:
    request = commit(case, tmp_path / "case.git")
    mount, files = request["workspace"]["mount"], case["request"]["workspace"]["files"]
    held = git(tmp_path / "case.git", "ls-tree", "-r", "-z", "--name-only", "main").strip("\0").split("\0")
    assert sorted(f"{mount}/{path}" for path in held) == sorted(
        f"{path}/.keep" if entry == {"directory": True} else path for path, entry in files.items()
    )
    for path, entry in files.items():
        if isinstance(entry, str):
            shown = git(tmp_path / "case.git", "show", f"main:{path.removeprefix(mount + '/')}")
            assert shown == entry.strip()
