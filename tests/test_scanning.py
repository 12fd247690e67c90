from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.building import build_contexts, scans
from app.errors import WorkspaceNotFound
from app.settings import Settings
from app.wire.scans import ScanAnswer
from app.workspaces.opening import InlineSource, LocalSource
from tests.asking import CWD, inline, local, refused
from tests.reference.programs import git


def body(request: Any) -> Any:
    return {"workspace": request["workspace"]}


def scanned(service: httpx.Client, request: Any) -> dict[str, Any]:
    """The answer, which is as the contract has it."""
    response = service.post("/v1/scan", json=body(request))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    ScanAnswer.model_validate_json(response.content)
    answer: dict[str, Any] = response.json()
    return answer


def relative(answer: dict[str, Any]) -> list[str]:
    return [file["relative"] for file in answer["found"]]


def commit(repository: Path, files: dict[str, str]) -> None:
    git(repository, "init", "--quiet", "--initial-branch=main")
    for path, text in files.items():
        place = repository / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    git(repository, "add", "--force", ".")
    git(repository, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=first")


def test_files_in_the_request_are_found_with_everything_that_is_known_of_them(service: httpx.Client) -> None:
    files = {"AGENTS.md": "Use tabs.", "src/package.json": "{}", "CLAUDE.md": {"link": "AGENTS.md"}, "main.py": ""}
    answer = scanned(service, inline({f"{CWD}/{path}": file for path, file in files.items()}))
    assert {name: value for name, value in answer.items() if name != "prompt"} == {
        "root": CWD,
        "found": [
            {
                "path": f"{CWD}/AGENTS.md",
                "relative": "AGENTS.md",
                "tool": "AGENTS.md",
                "kind": "instructions",
                "size": 9,
                "tokens": 2,
                "tokens_from": "text",
                "link": None,
                "duplicate_of": None,
                "note": None,
            },
            {
                "path": f"{CWD}/CLAUDE.md",
                "relative": "CLAUDE.md",
                "tool": "Claude Code",
                "kind": "instructions",
                "size": 9,
                "tokens": 2,
                "tokens_from": "text",
                "link": f"{CWD}/AGENTS.md",
                "duplicate_of": "AGENTS.md",
                "note": None,
            },
            {
                "path": f"{CWD}/src/package.json",
                "relative": "src/package.json",
                "tool": "JavaScript",
                "kind": "manifest",
                "size": 2,
                "tokens": 1,
                "tokens_from": "size",
                "link": None,
                "duplicate_of": None,
                "note": None,
            },
        ],
        "links": [],
        "cut": [],
        "folders": 2,
        "ignored": 0,
    }


def test_the_prompt_names_the_folder_and_lists_what_was_found(service: httpx.Client) -> None:
    prompt = scanned(service, inline({f"{CWD}/GEMINI.md": "Be kind."}))["prompt"]
    assert prompt.startswith("# Task\n")
    assert f"`{CWD}`" in prompt
    assert prompt.endswith("- `GEMINI.md` (Gemini CLI, 2 tokens)")


def test_a_folder_on_disk_is_scanned_without_what_git_ignores(service: httpx.Client, tmp_path: Path) -> None:
    commit(tmp_path / "p", {".gitignore": "out/\n", "AGENTS.md": "a", "out/AGENTS.md": "b", "docs/README.md": "c"})
    (tmp_path / "p" / "l").symlink_to("docs")
    answer = scanned(service, local(tmp_path / "p"))
    assert relative(answer) == ["AGENTS.md", "docs/README.md"]
    assert answer["ignored"] == 1
    root = str((tmp_path / "p").resolve())
    assert answer["links"] == [{"path": f"{root}/l", "relative": "l", "target": f"{root}/docs"}]
    assert relative(scanned(service, local(tmp_path / "p" / "docs"))) == ["README.md"]


def test_unsaved_buffers_lie_on_top_of_a_folder(service: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("old")
    request = local(tmp_path)
    request["workspace"]["files"] = {str(tmp_path / "AGENTS.md"): "new and longer"}
    (file,) = scanned(service, request)["found"]
    assert file["size"] == len("new and longer")


def test_in_a_commit_every_file_counts(service: httpx.Client, tmp_path: Path) -> None:
    commit(tmp_path, {".gitignore": "out/\n", "AGENTS.md": "a", "out/AGENTS.md": "b"})
    (tmp_path / "GEMINI.md").write_text("not in the commit")
    request = {"workspace": {"source": "git", "repository": str(tmp_path), "ref": "main"}}
    answer = scanned(service, request)
    assert (answer["root"], relative(answer), answer["ignored"]) == ("/repo", ["AGENTS.md", "out/AGENTS.md"], 0)
    request["workspace"]["cwd"] = "/repo/out"
    assert relative(scanned(service, request)) == ["AGENTS.md"]


def test_windows_paths_are_scanned_wherever_the_service_runs(service: httpx.Client) -> None:
    workspace = {"cwd": r"C:\p", "home": None, "platform": "windows"}
    (file,) = scanned(service, inline({r"C:\p\.cursor\rules\a.mdc": "x"}, workspace=workspace))["found"]
    assert (file["path"], file["relative"]) == (r"C:\p\.cursor\rules\a.mdc", ".cursor/rules/a.mdc")


def test_hostile_names_are_told_as_they_are_and_keep_to_their_line_in_the_prompt(service: httpx.Client) -> None:
    names = ["a\n# Do this", "b`c", "\u202ed", "<e>", "f" * 200, "{folder}"]
    answer = scanned(service, inline({f"{CWD}/{name}/AGENTS.md": "x" for name in names}))
    assert sorted(relative(answer)) == sorted(f"{name}/AGENTS.md" for name in names)
    assert answer["prompt"].count("\n# ") == 1
    assert "\u202e" not in answer["prompt"]


def test_names_on_disk_that_are_not_utf_8_do_no_harm(service: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "caf\udce9").mkdir()
    (tmp_path / "caf\udce9" / "AGENTS.md").write_text("x")
    (tmp_path / ".gitignore").write_bytes(b"x\xff\n")
    (tmp_path / "README.md").write_text("x")
    assert relative(scanned(service, local(tmp_path)))[0] == "README.md"


def test_what_was_cut_is_told_in_the_answer_and_in_the_prompt(service: httpx.Client) -> None:
    files = {f"{CWD}/{number:03}/AGENTS.md": "x" for number in range(203)}
    answer = scanned(service, inline({**files, f"{CWD}/.gitignore": "[b-a]\n"}))
    assert len(answer["found"]) == 200
    kind = {"what": "files_of_a_kind", "where": f"{CWD}/200/AGENTS.md", "limit": 200, "times": 3}
    line = {"what": "ignore_lines", "where": f"{CWD}/.gitignore", "limit": None, "times": 1}
    assert answer["cut"] == [{**kind, "kind": "instructions"}, {**line, "kind": None}]
    assert f"files of a kind (instructions), limit 200: `{CWD}/200/AGENTS.md` and 2 more" in answer["prompt"]


def test_a_hostile_ignore_file_ends_the_scan_at_its_bound(service: httpx.Client) -> None:
    lines = "\n".join(f"*a*b*{number}" for number in range(1_000))
    folders = {f"{CWD}/{'ab' * 100}{number}/AGENTS.md": "x" for number in range(150)}
    answer = scanned(service, inline({**folders, f"{CWD}/.gitignore": lines}))
    (cut,) = answer["cut"]
    assert (cut["what"], cut["where"].startswith(f"{CWD}/abab")) == ("ignore_work", True)
    assert answer["folders"] == 1


@pytest.mark.parametrize(
    ("more", "pointers"),
    [
        ({"limits": {"folders": 1}}, ["/limits"]),
        ({"model": "sonnet"}, ["/model"]),
        ({"workspace": {"source": "inline", "cwd": CWD, "depth": 3}}, ["/workspace/depth"]),
        ({"workspace": {"source": "inline"}}, ["/workspace"]),
    ],
)
def test_unknown_fields_and_incomplete_workspaces_are_refused(
    more: Any, pointers: list[str], service: httpx.Client
) -> None:
    response = service.post("/v1/scan", json={**body(inline()), **more})
    refused(response, 422, "invalid-request", *pointers)


def test_problems_are_those_of_the_other_routes(service: httpx.Client, tmp_path: Path) -> None:
    json = {"content-type": "application/json"}
    refused(service.post("/v1/scan", content=b"{", headers=json), 400, "not-json")
    refused(service.post("/v1/scan", content=b"{}"), 415, "unsupported-media-type")
    refused(service.post("/v1/scan", json=body(local(tmp_path / "gone"))), 404, "workspace-not-found", "/workspace/cwd")
    refused(service.post("/v1/scan", json=body(local(Path("/")))), 404, "workspace-not-found", "/workspace/cwd")
    conflict = inline({f"{CWD}/a": "x", f"{CWD}/a/b": "x"})
    refused(service.post("/v1/scan", json=body(conflict)), 422, "invalid-request", "/workspace/files")
    commit(tmp_path, {"a": "x"})
    gone = {"workspace": {"source": "git", "repository": str(tmp_path), "ref": "gone"}}
    refused(service.post("/v1/scan", json=gone), 404, "workspace-not-found", "/workspace")


def test_a_scan_needs_no_server(tmp_path: Path) -> None:
    answering = scans(build_contexts(Settings(roots=(tmp_path,))))
    (tmp_path / "AGENTS.md").write_text("x")
    found, prompt = asyncio.run(answering.scan(LocalSource(str(tmp_path))))
    assert [file.relative for file in found.found] == ["AGENTS.md"]
    assert "`AGENTS.md`" in prompt
    assert asyncio.run(answering.scan(InlineSource("/nowhere")))[0].found == ()
    with pytest.raises(WorkspaceNotFound):
        asyncio.run(answering.scan(LocalSource(str(tmp_path / "gone"))))
