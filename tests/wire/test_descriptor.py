from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.core.allowance import Limits
from app.core.facts import Client, GitFacts, GitRoots
from app.wire.descriptor import MANAGED_DIRS, Workspace
from app.workspaces.inline import Binary, Folder, Link, Text
from app.workspaces.opening import InlineSource, LocalSource
from tests.asking import inline


def described(**fields: Any) -> Workspace:
    return Workspace.model_validate({"source": "inline", "cwd": "/p"} | fields)


def test_every_kind_of_file_is_told_apart() -> None:
    files = {
        "/p/a": "text",
        "/p/b": {"base64": base64.b64encode(b"\x00\xff").decode()},
        "/p/c": {"link": "../a"},
        "/p/d": {"directory": True},
    }
    source = described(files=files).opened_as(Limits())
    assert isinstance(source, InlineSource)
    assert source.files == {"/p/a": Text("text"), "/p/b": Binary(b"\x00\xff"), "/p/c": Link("../a"), "/p/d": Folder()}


def test_files_of_a_local_workspace_lie_on_top_of_the_disk() -> None:
    assert described(source="local", files={"/p/a": "x"}).opened_as(Limits()) == LocalSource("/p", {"/p/a": Text("x")})


def test_paths_are_made_normal() -> None:
    workspace = described(
        cwd="//p/./q/../r/", home="/home/dev/", config_dir="/home/dev//c", managed_dir="/m/.", git={"toplevel": "/p/"}
    )
    source = workspace.opened_as(Limits())
    assert isinstance(source, InlineSource)
    assert source.cwd == "/p/r"
    assert source.git == GitFacts(roots=GitRoots("/p"))
    assert workspace.client("linux", None) == Client(
        cwd="/p/r", platform="linux", home="/home/dev", config_dir="/home/dev/c", managed_dir="/m"
    )


def test_what_is_known_of_git_reaches_the_core() -> None:
    git = {
        "toplevel": "/p",
        "main_toplevel": "/main/",
        "bare": True,
        "branch": "topic",
        "default_branch": "main",
        "status": "?? a",
        "log": ["a1 b"],
        "user": "Ada",
    }
    source = described(git=git).opened_as(Limits())
    assert isinstance(source, InlineSource)
    assert source.git == GitFacts(GitRoots("/p", "/main", bare=True), "topic", "main", "?? a", ("a1 b",), "Ada")


def test_git_without_a_checkout_has_no_roots() -> None:
    source = described(git={"branch": "main"}).opened_as(Limits())
    assert isinstance(source, InlineSource)
    assert source.git == GitFacts(branch="main")


def test_a_windows_path_makes_a_windows_workspace() -> None:
    workspace = described(cwd=r"c:\p\q\..", home=r"C:\Users\dev", files={r"C:\p\CLAUDE.md": "x"})
    client = workspace.client("linux", "/home/server")
    assert (client.cwd, client.platform, client.managed_dir) == (r"C:\p", "windows", MANAGED_DIRS["windows"])
    assert client.config_dir == r"C:\Users\dev\.claude"


@pytest.mark.parametrize("platform", MANAGED_DIRS)
def test_the_managed_folder_is_the_platforms(platform: Any) -> None:
    assert described(platform=platform).client("linux", None).managed_dir == MANAGED_DIRS[platform]


@pytest.mark.parametrize("field", ["home", "config_dir", "managed_dir"])
def test_paths_of_two_flavours_are_refused(field: str) -> None:
    with pytest.raises(ValidationError, match="paths must be all POSIX or all Windows"):
        described(**{field: r"C:\x"})


@pytest.mark.parametrize("path", ["", "p", "./p", "~/p", "C:", "C:p", r"\p"])
def test_a_path_that_is_not_absolute_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        described(cwd=path)


@pytest.mark.parametrize("path", ["/", "/p", "C:\\", "C:/p", r"\\server\share\p"])
def test_an_absolute_path_is_taken(path: str) -> None:
    assert described(cwd=path).cwd == path


def test_a_path_deeper_than_any_tree_is_refused(service: httpx.Client) -> None:
    body = inline({}, touched=[{"path": "/a" * 300}])
    answer = service.post("/v1/context", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"pointer": "/touched/0/path", "message": "a path may lie at most 256 folders deep"}
    ]


def test_more_lines_of_a_log_than_anyone_reads_are_refused(service: httpx.Client) -> None:
    answer = service.post("/v1/context", json=inline({}, workspace={"git": {"log": [""] * 1001}}))
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/workspace/git/log"]
