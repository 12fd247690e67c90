"""Trees larger than a request may take, and trees made to do harm: bounded, told, and the rest loads."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from app.wire.parsing import MOST_VALUES
from tests.asking import CWD, ask, inline, local, refused
from tests.serving import serve

ROOT = Path(__file__).parents[1]


@contextmanager
def limited(root: Path, **limits: int) -> Iterator[httpx.Client]:
    with (
        serve(create_app(Settings(roots=(root,), **limits))) as address,  # type: ignore[arg-type]
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


def contents(answer: dict[str, Any]) -> list[str]:
    return [file["content"] for file in answer["memory"]["files"]]


def rows(answer: dict[str, Any], reason: str) -> list[dict[str, Any]]:
    return [row for row in answer["memory"]["report"] if row["reason"] == reason]


def reasons(answer: dict[str, Any]) -> Counter[str]:
    return Counter(row["reason"] or row["verdict"] for row in answer["memory"]["report"])


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode() if isinstance(text, str) else text)


def here(folder: Path, **more: Any) -> Any:
    return local(folder, **{"memory": {"walk_stop": str(folder)}, **more})


# Rules


def rules(count: int, folder: str = "") -> dict[str, Any]:
    return {f"{CWD}/.claude/rules/{folder}{number:05}.md": f"R{number}" for number in range(count)}


def test_rules_beyond_the_limit_are_told_in_one_row_and_the_rest_loads(tmp_path: Path) -> None:
    files = rules(30) | {f"{CWD}/CLAUDE.md": "TOP", f"{CWD}/CLAUDE.local.md": "LOCAL"}
    with limited(tmp_path, max_rules=10) as service:
        answer = ask(service, inline(files))
    assert contents(answer) == ["TOP", *(f"R{number}" for number in range(10)), "LOCAL"]
    (row,) = rows(answer, "budget")
    assert row["path"] == f"{CWD}/.claude/rules"
    assert "20 of its 30 entries were left out (STRATA_MAX_RULES)" in row["hint"]


def test_as_many_rules_as_the_limit_load_without_a_word(tmp_path: Path) -> None:
    with limited(tmp_path, max_rules=10) as service:
        answer = ask(service, inline(rules(10)))
    assert (len(contents(answer)), rows(answer, "budget")) == (10, [])


def test_many_folders_beyond_the_limit_are_told_once(tmp_path: Path) -> None:
    files = {path: text for number in range(20) for path, text in rules(10, f"f{number:02}/").items()}
    with limited(tmp_path, max_rules=40) as service:
        answer = ask(service, inline(files | {f"{CWD}/CLAUDE.local.md": "LOCAL"}))
    assert len(contents(answer)) == 21
    assert contents(answer)[-1] == "LOCAL"
    assert len(rows(answer, "budget")) == 1


def test_rules_of_every_level_count_together(tmp_path: Path) -> None:
    user = {path.replace(f"{CWD}/.claude", "/home/dev/.claude"): text for path, text in rules(8).items()}
    with limited(tmp_path, max_rules=10) as service:
        answer = ask(service, inline({**user, **rules(8)}))
    assert Counter(file["type"] for file in answer["memory"]["files"]) == {"User": 8, "Project": 2}
    assert [row["path"] for row in rows(answer, "budget")] == [f"{CWD}/.claude/rules"]


def test_rules_on_demand_have_the_same_limit(tmp_path: Path) -> None:
    nested = {path.replace(f"{CWD}/", f"{CWD}/sub/"): text for path, text in rules(30).items()}
    with limited(tmp_path, max_rules=10) as service:
        answer = ask(service, inline(nested, touched=[{"path": f"{CWD}/sub/x"}]))
    assert len(answer["memory"]["attachments"]) == 10
    assert len(rows(answer, "budget")) == 1


# Includes


def test_includes_beyond_the_limit_are_told_once(tmp_path: Path) -> None:
    files = {f"{CWD}/CLAUDE.md": " ".join(f"@{number}.md" for number in range(30)), f"{CWD}/CLAUDE.local.md": "LOCAL"}
    files |= {f"{CWD}/{number}.md": f"I{number}" for number in range(30)}
    with limited(tmp_path, max_includes=10) as service:
        answer = ask(service, inline(files))
    assert contents(answer)[1:] == [*(f"I{number}" for number in range(10)), "LOCAL"]
    (row,) = rows(answer, "budget")
    assert (row["path"], row["line"]) == (f"{CWD}/CLAUDE.md", 1)
    assert "STRATA_MAX_INCLUDES" in row["hint"]


def test_many_files_with_includes_beyond_the_limit_are_told_once(tmp_path: Path) -> None:
    files = {path: f"{text} @gone.md" for path, text in rules(30).items()}
    with limited(tmp_path, max_includes=10) as service:
        answer = ask(service, inline(files))
    assert len(contents(answer)) == 30
    assert len(rows(answer, "not_found")) - len([row for row in rows(answer, "not_found") if not row["parent"]]) == 10
    assert len(rows(answer, "budget")) == 1


def test_the_same_name_many_times_is_looked_up_once(tmp_path: Path) -> None:
    with limited(tmp_path, max_includes=10) as service:
        answer = ask(
            service, inline({f"{CWD}/CLAUDE.md": "@a.md " * 100 + "@b.md", f"{CWD}/a.md": "A", f"{CWD}/b.md": "B"})
        )
    assert contents(answer)[1:] == ["A", "B"]
    assert rows(answer, "budget") == []


# Bytes


def test_files_beyond_the_bytes_of_a_request_are_each_told_and_smaller_ones_load(tmp_path: Path) -> None:
    files = {
        f"{CWD}/.claude/rules/{name}.md": name * size for name, size in (("a", 60), ("b", 60), ("c", 30), ("d", 30))
    }
    with limited(tmp_path, max_memory_bytes=100) as service:
        answer = ask(service, inline(files))
    assert contents(answer) == ["a" * 60, "c" * 30]
    told = {row["path"]: row["hint"] for row in rows(answer, "budget")}
    assert set(told) == {f"{CWD}/.claude/rules/b.md", f"{CWD}/.claude/rules/d.md"}
    assert all("STRATA_MAX_MEMORY_BYTES" in hint for hint in told.values())


def test_a_file_beyond_its_own_limit_is_told_and_the_rest_loads(tmp_path: Path) -> None:
    files = {f"{CWD}/CLAUDE.md": "x" * 101, f"{CWD}/.claude/CLAUDE.md": "y" * 100, f"{CWD}/CLAUDE.local.md": "L"}
    with limited(tmp_path, max_file_bytes=100) as service:
        answer = ask(service, inline(files))
    assert contents(answer) == ["y" * 100, "L"]
    assert [row["path"] for row in rows(answer, "budget")] == [f"{CWD}/CLAUDE.md"]


def test_files_on_disk_have_the_same_limits(tmp_path: Path) -> None:
    write(tmp_path, {"CLAUDE.md": "x" * 101, ".claude/CLAUDE.md": "y" * 60, "CLAUDE.local.md": "z" * 60})
    with limited(tmp_path, max_file_bytes=100, max_memory_bytes=100) as service:
        answer = ask(service, here(tmp_path))
    assert contents(answer) == ["y" * 60]
    assert len(rows(answer, "budget")) == 2


# Trees made to do harm


def test_a_fan_of_includes_ends(tmp_path: Path, service: httpx.Client) -> None:
    width = 60
    links = " ".join(f"@{number}.md" for number in range(width))
    write(tmp_path, {"CLAUDE.md": links, **{f"{number}.md": f"F{number} {links}" for number in range(width)}})
    write(tmp_path, {"CLAUDE.local.md": "LOCAL"})
    answer = ask(service, here(tmp_path))
    assert contents(answer)[0] == links
    assert contents(answer)[-1] == "LOCAL"
    assert len({file["path"] for file in answer["memory"]["files"]}) == len(contents(answer))
    assert len(rows(answer, "budget")) == 1
    assert len(answer["memory"]["report"]) < 1100


def test_a_circle_of_includes_ends(tmp_path: Path, service: httpx.Client) -> None:
    write(tmp_path, {"CLAUDE.md": "@a.md @CLAUDE.md", "a.md": "@b.md @a.md", "b.md": "@CLAUDE.md @a.md @b.md"})
    (tmp_path / "CLAUDE.local.md").symlink_to("CLAUDE.md")
    answer = ask(service, here(tmp_path))
    assert contents(answer) == ["@a.md @CLAUDE.md", "@b.md @a.md", "@CLAUDE.md @a.md @b.md"]
    assert reasons(answer)["already_loaded"] == 6


BOMB = "{a,b}" * 60
SPREAD = ",".join(["{1..100000}"] * 5)


@pytest.mark.parametrize(
    "paths",
    [
        f'"{BOMB}"',
        f'["{BOMB}", "{BOMB}"]',
        SPREAD,
        '"' + "{" * 5000 + "}" * 5000 + '"',
        '"' + "{a," * 3000 + '"',
        '["' + '","'.join(f"{number}*" for number in range(3000)) + '"]',
        '"' + "**/a/" * 200 + '"',
        '"' + "*a" * 400 + '"',
        '"' + "[" * 500 + '"',
    ],
    ids=["wide", "twice", "ranges", "deep", "open", "many", "folders", "stars", "sets"],
)
def test_a_rule_with_a_pattern_bomb_waits_and_the_others_work(
    paths: str, tmp_path: Path, service: httpx.Client
) -> None:
    write(
        tmp_path,
        {
            ".claude/rules/bomb.md": f"---\npaths: {paths}\n---\nBOMB",
            ".claude/rules/c.md": '---\npaths: "lib/*.c"\n---\nC',
        },
    )
    answer = ask(service, here(tmp_path, touched=[{"path": str(tmp_path / "lib/x.c")}]))
    assert [file["content"] for file in answer["memory"]["attachments"]] == ["C"]
    bomb = next(row for row in answer["memory"]["report"] if row["path"].endswith("bomb.md"))
    assert bomb["verdict"] == "withheld"
    assert len(bomb["hint"] or "") < 2000


def test_twenty_thousand_rules_end_at_the_limit(tmp_path: Path, service: httpx.Client) -> None:
    folder = tmp_path / ".claude" / "rules"
    folder.mkdir(parents=True)
    for number in range(20_000):
        (folder / f"{number:05}.md").write_bytes(b"R")
    write(tmp_path, {"CLAUDE.local.md": "LOCAL"})
    answer = ask(service, here(tmp_path))
    assert (len(contents(answer)), contents(answer)[-1]) == (5001, "LOCAL")
    (row,) = rows(answer, "budget")
    assert "15,000 of its 20,000 entries" in row["hint"]


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path, service: httpx.Client) -> None:
    write(tmp_path, {".claude/rules/ok.md": "OK @pipe.md @../../zero", "CLAUDE.local.md/x": "a folder"})
    os.mkfifo(tmp_path / "CLAUDE.md")
    os.mkfifo(tmp_path / ".claude" / "rules" / "pipe.md")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(tmp_path)  # the name of a socket is short
        bound.bind(".claude/CLAUDE.md")
        os.chdir(ROOT)
        answer = ask(service, here(tmp_path))
    assert contents(answer) == ["OK @pipe.md @../../zero"]
    found = {
        os.path.relpath(row["path"], tmp_path): row["reason"] for row in answer["memory"]["report"] if row["reason"]
    }
    assert {path: reason for path, reason in found.items() if reason != "not_found"} == {
        "CLAUDE.md": "not_regular",
        ".claude/CLAUDE.md": "not_regular",
        ".claude/rules/pipe.md": "not_regular",
        "zero": "outside_fence",
        "CLAUDE.local.md": "is_directory",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="devices are made by root only")
def test_a_device_is_no_file(tmp_path: Path, service: httpx.Client) -> None:
    try:
        os.mknod(tmp_path / "CLAUDE.md", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert reasons(ask(service, here(tmp_path)))["not_regular"] == 1


AS_NOBODY = """
import asyncio, os, sys
from dataclasses import asdict
from pathlib import Path
from app.building import build_contexts
from app.main import server_facts
from app.settings import Settings
from app.wire.answers import context_answer, to_bytes
from app.wire.requests import parse_context_request, to_ask

def answer(body):
    given = asyncio.run(contexts.answer(to_ask(parse_context_request(body), server_facts(settings), ())))
    return to_bytes(context_answer(given.assembly, asdict(given.session), given.notices))

settings = Settings(roots=(Path(sys.argv[1]),))
contexts = build_contexts(settings)
answer(b'{"model": "sonnet", "workspace": {"source": "inline", "cwd": "/p"}}')  # everything is imported by now
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))
"""


@pytest.fixture
def shown_to_all() -> Iterator[Path]:
    """A folder that every account may pass; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


def test_what_may_not_be_read_is_told_and_the_rest_loads(shown_to_all: Path) -> None:
    """In a process without root's rights, which would see through the modes."""
    closed = {
        "CLAUDE.md": 0,
        ".claude/rules/a.md": 0,
        ".claude/rules/b": 0,
        "closed": 0o600,
        ".claude/CLAUDE.md": 0o300,
    }
    write(
        shown_to_all,
        {
            "CLAUDE.md": "CLOSED",
            ".claude/CLAUDE.md": "CLOSED",
            ".claude/rules/a.md": "CLOSED",
            ".claude/rules/b/c.md": "CLOSED",
            ".claude/rules/ok.md": "OK @../../closed/x.md",
            "closed/x.md": "CLOSED",
        },
    )
    for path, mode in closed.items():
        (shown_to_all / path).chmod(mode)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(shown_to_all)],
        input=json.dumps(here(shown_to_all)).encode(),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nowhere"},
        capture_output=True,
        check=False,
    )
    for path in closed:
        (shown_to_all / path).chmod(0o700)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert contents(answer) == ["OK @../../closed/x.md"]
    assert {os.path.relpath(row["path"], shown_to_all) for row in rows(answer, "unreadable")} == {
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        ".claude/rules/a.md",
        ".claude/rules/b",
        "closed/x.md",
    }


def test_names_that_are_not_utf_8_are_told_and_the_rest_loads(tmp_path: Path, service: httpx.Client) -> None:
    write(tmp_path, {".claude/rules/ok.md": "OK", "CLAUDE.md": b"@\xff\xfe.md caf\xe9"})
    folder = tmp_path / ".claude" / "rules"
    (folder / os.fsdecode(b"\xff\xfe.md")).write_text("BAD")
    (folder / os.fsdecode(b"caf\xe9")).mkdir()
    answer = ask(service, here(tmp_path))
    assert contents(answer) == ["@\ufffd\ufffd.md caf\ufffd", "OK"]
    told = {row["path"]: row["hint"] for row in rows(answer, "unreadable")}
    assert told == dict.fromkeys(
        (f"{folder}/caf\ufffd", f"{folder}/\ufffd\ufffd.md"), "Its name is not UTF-8: rename it."
    )


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path, service: httpx.Client) -> None:
    write(tmp_path, {"CLAUDE.local.md": "LOCAL @big.md", ".claude/rules/ok.md": "OK"})
    for name in ("CLAUDE.md", ".claude/rules/big.md", "big.md"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1024**3)
    answer = ask(service, here(tmp_path))
    assert contents(answer) == ["OK", "LOCAL @big.md"]
    assert len(rows(answer, "budget")) == 3


def test_links_out_of_the_roots_are_told_and_tell_nothing(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside, {"secret.md": "SECRET", "rules/s.md": "SECRET"})
    write(root, {".claude/rules/ok.md": "OK @../../link.md @../../gone.md @../../folder/secret.md"})
    (root / "CLAUDE.md").symlink_to(outside / "secret.md")
    (root / "CLAUDE.local.md").symlink_to(outside / "gone.md")
    (root / "link.md").symlink_to(outside / "secret.md")
    (root / "gone.md").symlink_to(outside / "gone.md")
    (root / "folder").symlink_to(outside)
    (root / ".claude" / "rules" / "more").symlink_to(outside / "rules")
    with limited(root) as service:
        answer = ask(service, here(root, memory={"walk_stop": str(root), "allow_external_includes": True}))
    assert contents(answer) == ["OK @../../link.md @../../gone.md @../../folder/secret.md"]
    assert "SECRET" not in json.dumps(answer)
    fenced = {os.path.relpath(row["path"], root) for row in rows(answer, "outside_fence")}
    assert {"CLAUDE.md", "CLAUDE.local.md", "link.md", "gone.md", ".claude/rules/more"} <= fenced


def test_a_file_that_changes_while_it_is_read_is_there_or_not(tmp_path: Path, service: httpx.Client) -> None:
    """Now one text, now the other, now none, now a link elsewhere: each answer is one of them."""
    write(tmp_path, {"one": "ONE" * 1000, "two": "TWO" * 1000, ".claude/rules/ok.md": "OK"})
    done = threading.Event()

    def change() -> None:
        place, beside = tmp_path / "CLAUDE.md", tmp_path / "beside"
        while not done.is_set():
            for name in ("one", "two"):
                beside.write_bytes((tmp_path / name).read_bytes())
                beside.replace(place)
            place.unlink()
            beside.symlink_to("/etc/hostname")
            beside.replace(place)
            place.unlink()
            place.mkdir()
            place.rmdir()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(60):
            found = contents(ask(service, here(tmp_path)))
            assert found[-1] == "OK"
            assert found[:-1] in ([], ["ONE" * 1000], ["TWO" * 1000])
    finally:
        done.set()
        changing.join()


# What a request brings with it


def test_more_files_than_a_request_may_bring_are_refused(tmp_path: Path) -> None:
    files = {f"{CWD}/{number}.md": "" for number in range(11)}
    with limited(tmp_path, max_files=10) as service:
        problem = refused(service.post("/v1/context", json=inline(files)), 413, "too-large", "/workspace/files")
        assert "STRATA_MAX_FILES" in problem["detail"]
        ask(service, inline(dict(list(files.items())[:10])))


@pytest.mark.parametrize(
    ("pointer", "workspace"),
    [
        ("cwd", {"cwd": "/a" * 9}),
        ("home", {"home": "/a" * 9}),
        ("files", {"files": {"/a" * 9: "x"}}),
        ("files", {"files": {"/a": {"link": "../" * 9}}}),
        ("additional_directories/0", {"additional_directories": ["a/" * 9]}),
        ("git/toplevel", {"git": {"toplevel": "/a" * 9}}),
    ],
)
@pytest.mark.parametrize("address", ["/v1/context", "/v1/attachments", "/v1/scan"])
def test_paths_deeper_than_the_limit_are_refused(
    address: str, pointer: str, workspace: dict[str, Any], tmp_path: Path
) -> None:
    body = {"workspace": inline(workspace=workspace)["workspace"]}
    body |= {"/v1/context": {"model": "sonnet"}, "/v1/attachments": {"touched": []}, "/v1/scan": {}}[address]
    with limited(tmp_path, max_depth=8) as service:
        problem = refused(service.post(address, json=body), 413, "too-large", f"/workspace/{pointer}")
    assert "STRATA_MAX_DEPTH" in problem["detail"]


def test_a_mount_deeper_than_the_limit_is_refused(tmp_path: Path) -> None:
    workspace = {"source": "git", "repository": str(tmp_path)[:3], "mount": "/a" * 9}
    with limited(tmp_path, max_depth=8) as service:
        response = service.post("/v1/context", json={"model": "sonnet", "workspace": workspace})
    refused(response, 413, "too-large", "/workspace/mount")


def test_rules_deeper_than_the_limit_are_told_and_the_rest_loads(tmp_path: Path) -> None:
    write(tmp_path, {f".claude/rules/{'d/' * depth}r.md": f"R{depth}" for depth in (0, 13, 14)})
    with limited(tmp_path, max_depth=13) as service:
        answer = ask(service, here(tmp_path))
    assert sorted(contents(answer)) == ["R0", "R13"]
    (told,) = rows(answer, "budget")
    assert told["path"] == str(tmp_path / ".claude/rules" / ("d/" * 14))
    assert "STRATA_MAX_DEPTH" in told["hint"]


def test_a_request_that_asks_too_much_of_its_workspace_is_refused(tmp_path: Path) -> None:
    nested = {f"{CWD}/{number}/x.py": "" for number in range(60)}
    touched = [{"path": path} for path in nested]
    with limited(tmp_path, max_looks=100) as service:
        problem = refused(service.post("/v1/context", json=inline(nested, touched=touched)), 413, "too-large")
        assert "STRATA_MAX_LOOKS" in problem["detail"]
        wide = {"workspace": inline({f"{CWD}/{number}": "" for number in range(101)})["workspace"]}
        assert "STRATA_MAX_LOOKS" in refused(service.post("/v1/scan", json=wide), 413, "too-large")["detail"]
        ask(service, inline())


# One budget of bytes


def test_every_file_of_a_request_is_read_from_one_budget(tmp_path: Path) -> None:
    """Settings, instruction files, what they include, and what a touched file brings; each real file once."""
    write(
        tmp_path,
        {
            ".claude/settings.json": json.dumps({"language": "x" * 200}),
            "CLAUDE.md": "A" * 300 + " @b.md",
            "b.md": "B" * 300,
            "sub/CLAUDE.md": "C" * 300,
            "sub/.claude/rules/r.md": "D" * 100,
            ".claude/rules/when.md": '---\npaths: "sub/*"\n---\n' + "E" * 200,
        },
    )
    (tmp_path / "CLAUDE.local.md").symlink_to("b.md")
    touched = [{"path": "sub/x"}]
    with limited(tmp_path, max_memory_bytes=1000) as service:
        answer = ask(service, here(tmp_path, touched=touched))
    assert [text[0] for text in contents(answer)] == ["A", "B"]
    assert [file["content"][0] for file in answer["memory"]["attachments"]] == ["D"]
    told = {os.path.relpath(row["path"], tmp_path): row["hint"] for row in rows(answer, "budget")}
    assert set(told) == {".claude/rules/when.md", "sub/CLAUDE.md"}
    assert all("STRATA_MAX_MEMORY_BYTES" in hint for hint in told.values())
    with limited(tmp_path, max_memory_bytes=1600) as service:
        assert rows(ask(service, here(tmp_path, touched=touched)), "budget") == []


def test_binary_files_and_unsaved_buffers_are_read_from_the_same_budget(tmp_path: Path) -> None:
    write(tmp_path, {".claude/rules/a.md": b"\0" * 60, ".claude/rules/c.md": "C" * 30})
    body = here(tmp_path)
    body["workspace"]["files"] = {str(tmp_path / ".claude/rules/b.md"): "B" * 60}
    with limited(tmp_path, max_memory_bytes=100) as service:
        answer = ask(service, body)
    assert contents(answer) == ["C" * 30]
    assert [row["path"] for row in rows(answer, "not_text")] == [str(tmp_path / ".claude/rules/a.md")]
    assert [row["path"] for row in rows(answer, "budget")] == [str(tmp_path / ".claude/rules/b.md")]


# Bombs


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("/v1/context", '{"model":"a","workspace":{"source":"inline","cwd":"/p"},"messages":%s}'),
        ("/v1/context", '{"model":"a","workspace":{"source":"inline","cwd":"/p"},"tools":[{"name":"a","x":%s}]}'),
        ("/v1/context", '{"model":"a","workspace":{"source":"inline","cwd":"/p"},"thinking":{"a":%s}}'),
        ("/v1/attachments", '{"touched":%s}'),
        ("/v1/scan", '{"workspace":%s}'),
        ("/v1/tokens", '{"model":"a","messages":[{"role":"user","content":%s}]}'),
        ("/v1/tokens", '{"model":"a","system":[{"type":"text","x":%s}]}'),
        ("/v1/cache/lint", '{"requests":[{"body":{"model":"a","messages":[{"x":%s}]}}]}'),
        ("/v1/sessions/s/compactions", '{"mode":%s}'),
        ("/v1/context", "%s"),
    ],
)
def test_json_nested_without_end_is_refused(address: str, body: str, service: httpx.Client) -> None:
    for value in (NESTED, NESTED[:100_000], NESTED.replace("[", '{"a":').replace("]", "}")):
        response = service.post(address, content=body % value, headers={"content-type": "application/json"})
        assert response.status_code in {400, 422}, response.text
        assert response.json()["type"].startswith("urn:strata:problem:")


@pytest.mark.parametrize("value", ["{}", "[]", "0", '""', "[[],[]]"])
def test_more_values_than_a_body_may_hold_are_refused(value: str, service: httpx.Client) -> None:
    many = ",".join([value] * (MOST_VALUES + 1))
    body = f'{{"model":"a","messages":[{{"role":"user","content":[{{"type":"text","x":[{many}]}}]}}]}}'
    response = service.post("/v1/tokens", content=body, headers={"content-type": "application/json"})
    assert f"{MOST_VALUES:,} JSON values" in refused(response, 413, "too-large")["detail"]


def test_marks_within_texts_are_no_values(service: httpx.Client) -> None:
    text = ',[{"\\' * MOST_VALUES
    response = service.post("/v1/tokens", json={"model": "a", "messages": [{"role": "user", "content": text}]})
    assert response.status_code == 200


def test_as_many_links_in_a_row_as_there_may_be_files_end(service: httpx.Client) -> None:
    files: dict[str, Any] = {f"{CWD}/{number}": {"link": str(number + 1)} for number in range(19_999)}
    files[f"{CWD}/CLAUDE.md"] = {"link": "0"}
    answer = ask(service, inline(files))
    assert rows(answer, "dangling_link")[0]["path"] == f"{CWD}/CLAUDE.md"


COSTLY = {
    "lists": "@a.md\n\n" + "- a\n" * 60_000,
    "headings": "# @a.md\n\n" * 60_000,
    "quotes": "@a.md\n" + "> - " * 49 + "a\n" + "a\n" * 30_000,
    "brackets": "@a.md\n" + ("[" * 400 + "\n") * 600,
    "labels": "@a.md\n" + "[a\n" * 60_000,
    "emphasis": "@a.md\n" + ("*" * 7_000 + "a\n") * 100,
    "tables": "@a.md\n\n" + ("|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + "|\n" * 30 + "\n") * 20,
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY.keys())
def test_markdown_that_takes_too_long_loads_and_is_told(text: str, tmp_path: Path) -> None:
    files = {f"{CWD}/CLAUDE.md": text, f"{CWD}/CLAUDE.local.md": "@a.md", f"{CWD}/a.md": "A"}
    with limited(tmp_path, request_seconds=600) as service:
        answer = ask(service, inline(files))
    assert contents(answer)[0].strip() == text.strip()
    assert "A" in contents(answer)
    (row,) = (row for row in answer["memory"]["report"] if row["path"] == f"{CWD}/CLAUDE.md" and not row["parent"])
    assert "takes too long to look through" in row["hint"]


def test_exclude_patterns_beyond_the_limit_are_told_once(service: httpx.Client) -> None:
    many = json.dumps({"claudeMdExcludes": [f"/x/{number}" for number in range(20_000)]})
    answer = ask(service, inline({f"{CWD}/.claude/settings.json": many, f"{CWD}/CLAUDE.md": "C"}))
    assert contents(answer) == ["C"]
    (told,) = rows(answer, "budget")
    assert "There are too many exclude patterns" in told["hint"]
    assert "behind it" in told["hint"]


def test_additional_directories_of_settings_files_are_bounded(service: httpx.Client) -> None:
    many = json.dumps({"permissions": {"additionalDirectories": [f"/x/{number}" for number in range(5_000)]}})
    answer = ask(service, inline({"/home/dev/.claude/settings.json": many}))
    told = [one for one in answer["warnings"] if one["code"] == "settings_ignored"]
    assert [one["where"] for one in told] == ["/x/1000"]
    assert sum(one["code"] == "additional_directory_missing" for one in answer["warnings"]) == 1000
