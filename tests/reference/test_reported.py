"""Faults that users report, with the right outcome, over HTTP: from files in the request, and from a tree on disk."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.core.paths import paths_for
from tests.reference.trees import Tree

Case = dict[str, Any]

CASES: tuple[Case, ...] = tuple(
    yaml.load((Path(__file__).parent / "reported.yaml").read_bytes(), Loader=yaml.CSafeLoader)
)
ON_DISK = tuple(case for case in CASES if "disk" not in case)
FIELDS = {
    *("id", "about", "cwd", "files", "git", "workspace", "memory", "sources", "agent", "touched", "disk"),
    *("loads", "attached", "reported", "hints", "warnings"),
}


def by_id(cases: tuple[Case, ...]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def cwd(case: Case) -> str:
    found: str = case.get("cwd", "/home/dev/p")
    return found


def absolute(case: Case, path: str) -> str:
    return path[1:] if path.startswith("=") else paths_for(cwd(case)).join(cwd(case), path)


def request(case: Case) -> Case:
    """The case as one of `tests.reference.cases` is: an ``id``, and a ``request`` with files in it."""
    described = {"source": "inline", "cwd": cwd(case), "home": "/home/dev", "platform": "linux"}
    described["files"] = {absolute(case, path): file for path, file in case.get("files", {}).items()}
    body: dict[str, Any] = {"model": "claude-sonnet-4-5", "date": "2026-11-30", "memory": case.get("memory", {})}
    body["workspace"] = described | case.get("workspace", {})
    body["touched"] = [touch(case, one) for one in case.get("touched", ())]
    if "git" in case:
        body["workspace"]["git"] = case["git"]
    named = {"setting_sources": "sources", "agent": "agent"}
    return {"id": case["id"], "request": body | {to: case[own] for to, own in named.items() if own in case}}


def touch(case: Case, written: str) -> dict[str, str]:
    event, space, path = written.rpartition(" ")
    return {"path": absolute(case, path), "event": event if space else "read"}


def ask(service: httpx.Client, body: dict[str, Any], path: str = "/v1/context") -> dict[str, Any]:
    answer = service.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def placed(case: Case, rows: dict[str, Any] | None) -> dict[str, Any]:
    return {absolute(case, path): value for path, value in (rows or {}).items()}


def check(case: Case, answer: dict[str, Any]) -> None:
    memory = answer["memory"]
    assert contents(memory["files"]) == list(placed(case, case.get("loads")).items())
    assert contents(memory["attachments"]) == list(placed(case, case.get("attached")).items())
    wanted = placed(case, case.get("reported"))
    assert reasons(memory["report"]) == {
        path: sorted(reason) if isinstance(reason, list) else [reason] for path, reason in wanted.items()
    }
    words = placed(case, case.get("hints"))
    assert hints(memory["report"]).keys() == words.keys()
    assert [path for path, told in hints(memory["report"]).items() if words[path] not in told] == []
    assert [warning["code"] for warning in answer["warnings"]] == case.get("warnings", [])
    agree(answer)


def agree(answer: dict[str, Any]) -> None:
    """What is listed as loaded is what reaches the model, and the other way round."""
    memory = answer["memory"]
    loaded = {row["path"] for row in memory["report"] if row["verdict"] == "loaded"}
    assert loaded == {file["path"] for file in (*memory["files"], *memory["attachments"])}
    texts = [block["text"] for message in answer["request"]["messages"] for block in message["content"]]
    for file in memory["files"]:
        assert f"Contents of {file['path']} ({file['label']}):\n\n{file['content']}" in answer["user_context"]["text"]
        assert hashlib.sha256(file["content"].encode()).hexdigest() == file["sha256"]
    assert [text for text in texts if text == answer["user_context"]["text"]] == ([texts[0]] if texts else [])
    assert texts[1:] == [attachment["text"] for attachment in memory["attachments"]]


def hints(report: list[dict[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = defaultdict(str)
    for row in report:
        if row["hint"]:
            found[row["path"]] += row["hint"]
    return found


def contents(files: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(file["path"], file["content"].strip()) for file in files]


def reasons(report: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Why what did not load did not; usual places where there is no file are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in report:
        if row["reason"] and (row["reason"] != "not_found" or row["parent"]):
            found[row["path"]].append(row["reason"])
    return {path: sorted(set(rows)) for path, rows in found.items()}


@by_id(CASES)
def test_files_in_the_request_give_the_right_outcome(case: Case, service: httpx.Client) -> None:
    check(case, ask(service, request(case)["request"]))


@by_id(ON_DISK)
def test_files_on_disk_give_the_right_outcome(case: Case, service: httpx.Client, tree: Tree) -> None:
    check(case, tree.back(ask(service, tree.lay(request(case)))))
