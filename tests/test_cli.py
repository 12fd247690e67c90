from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import __version__
from app.main import create_app
from app.settings import Settings
from tests.asking import CONTRACT, answered, inline, local
from tests.reference.programs import first_commit, git
from tests.serving import serve
from tests.starting import failed, served, strata


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Use tabs. @docs.md")
    (folder / "docs.md").write_text("The docs.")
    (folder / "src" / "CLAUDE.md").write_text("Nested.")
    return folder


# strata context


def test_the_command_prints_what_the_service_answers(home: Path, project: Path, tmp_path: Path) -> None:
    body = local(project, touched=[{"path": str(project / "src" / "a.py")}])
    body["workspace"] = {"source": "local", "cwd": str(project)}
    with serve(create_app(Settings(roots=(tmp_path,), home=home))) as address:
        served_bytes = httpx.post(f"{address}/v1/context", json=body, trust_env=False).content
    more = tmp_path / "more.json"
    more.write_text(json.dumps({"date": body["date"], "model": body["model"]}))
    touched = str(project / "src" / "a.py")
    done = strata(
        home, "context", str(project), "--request", str(more), "--touched", touched, STRATA_ROOTS=str(tmp_path)
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == served_bytes + b"\n"
    assert [file["content"] for file in json.loads(done.stdout)["memory"]["attachments"]] == ["Nested."]


def test_a_relative_folder_and_relative_files_are_taken_from_here(home: Path, project: Path) -> None:
    whole = strata(home, "context", str(project), "--touched", str(project / "src" / "x.py"))
    short = strata(home, "context", ".", "--touched", "src/x.py", cwd=project)
    assert whole.returncode == 0
    assert short.stdout == whole.stdout


def test_a_folder_outside_the_roots_is_read_because_its_owner_names_it(home: Path, project: Path) -> None:
    done = strata(home, "context", str(project), STRATA_ROOTS=str(home))
    assert [file["content"] for file in json.loads(done.stdout)["memory"]["files"]][-1] == "The docs."


def test_the_request_comes_from_standard_input(home: Path, project: Path) -> None:
    given = json.dumps({"date": "2020-01-02", "system_prompt": {"custom": "Only this."}}).encode()
    done = strata(home, "context", str(project), "--request", "-", given=given)
    answer = json.loads(done.stdout)
    assert [block["text"] for block in answer["system_blocks"]] == ["Only this."]
    assert answer["user_context"]["entries"]["currentDate"] == "Today's date is 2020-01-02."


@pytest.mark.parametrize(
    ("given", "arguments", "model"),
    [
        ({}, [], "claude-sonnet-5-5"),
        ({"model": "haiku"}, [], "claude-haiku-5-5"),
        ({"model": "haiku"}, ["--model", "claude-opus-4-8[1m]"], "claude-opus-4-8"),
    ],
)
def test_the_model_is_the_options_then_the_requests_then_the_usual(
    given: Any, arguments: list[str], model: str, home: Path, project: Path
) -> None:
    done = strata(home, "context", str(project), "--request", "-", *arguments, given=json.dumps(given).encode())
    assert json.loads(done.stdout)["request"]["model"] == model


def test_touched_files_join_those_of_the_request(home: Path, project: Path) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "CLAUDE.md").write_text("Library.")
    given = json.dumps({"touched": [{"path": "lib/a.py"}]}).encode()
    done = strata(home, "context", str(project), "--request", "-", "--touched", str(project / "src/a"), given=given)
    assert [one["content"] for one in json.loads(done.stdout)["memory"]["attachments"]] == ["Library.", "Nested."]


def test_a_commit_is_assembled_when_the_request_says_so(home: Path, tmp_path: Path) -> None:
    repository = tmp_path / "r"
    git(repository, "init", "--quiet", "--initial-branch=main")
    first_commit(repository)
    workspace = {"source": "git", "repository": str(repository), "cwd": "/repo"}
    given = json.dumps({"workspace": workspace}).encode()
    done = strata(home, "context", ".", "--request", "-", given=given, STRATA_ROOTS=str(home))
    assert done.returncode == 0
    assert "Current branch: " in json.loads(done.stdout)["system_blocks"][-1]["text"]


BROKEN: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "- cannot be read"),
    "empty": (b"", "- cannot be read"),
    "a list": (b"[]", "- must hold a JSON object"),
    "misspelt": (b'{"modle": 1}', "/modle: there is no such field"),
    "workspace": (b'{"workspace": []}', "/workspace: Input should be an object"),
    "workspace of null": (b'{"workspace": null}', "/workspace: Input should be an object"),
    "cwd": (b'{"workspace": {"cwd": 3}}', "/workspace/cwd: Input should be a valid string"),
    "touched": (b'{"touched": 3}', "/touched: Input should be a valid"),
    "date": (b'{"date": "2026-02-30"}', "/date: this must be a day of the calendar"),
    "deep": (b'{"tools": %s%s}' % (b"[" * 300, b"]" * 300), "cannot be written as JSON"),
    "layout": (b'{"cache": {"layout": "early"}}', "/cache/layout: Input should be 'classic' or 'late'"),
}


@pytest.mark.parametrize(("given", "said"), BROKEN.values(), ids=BROKEN)
def test_a_request_that_is_not_valid_ends_with_2(given: bytes, said: str, home: Path, project: Path) -> None:
    failed(strata(home, "context", str(project), "--request", "-", "--touched", "a", given=given), 2, said)


def test_a_request_file_that_is_missing_ends_with_2(home: Path, project: Path) -> None:
    failed(strata(home, "context", str(project), "--request", "no.json"), 2, "no.json cannot be read: ")


def test_a_folder_whose_name_is_not_text_ends_with_2(home: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(folder)).mkdir()
    failed(strata(home, "context", folder), 2, "the request cannot be written as JSON")


def test_settings_that_are_not_valid_end_with_2(home: Path, project: Path) -> None:
    failed(strata(home, "context", str(project), STRATA_HOST="0.0.0.0"), 2, "host 0.0.0.0 is reachable")


def test_a_folder_that_cannot_be_opened_ends_with_3(home: Path, project: Path) -> None:
    failed(strata(home, "context", str(project / "missing")), 3, f"There is no folder {project / 'missing'}")


def test_a_file_in_place_of_a_folder_ends_with_3(home: Path, project: Path) -> None:
    failed(strata(home, "context", str(project / "CLAUDE.md")), 3, "CLAUDE.md is a file: give its folder")


@pytest.mark.parametrize(("strict", "code"), [([], 0), (["--strict"], 4)])
def test_what_was_asked_for_and_did_not_load_is_told(strict: list[str], code: int, home: Path, project: Path) -> None:
    (project / "CLAUDE.md").write_text("@gone.md @docs.md")
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text("{")
    done = strata(home, "context", str(project), *strict)
    assert done.returncode == code
    assert json.loads(done.stdout)["memory"]["files"]
    told = sorted(done.stderr.decode().splitlines())
    assert told[0].startswith(f"{project}/.claude/settings.json: settings_unreadable. It is not valid JSON")
    assert told[1:] == [f"{project}/CLAUDE.md, line 1: {project}/gone.md: not_found."]


def test_strict_ends_with_0_when_all_loaded(home: Path, project: Path) -> None:
    done = strata(home, "context", str(project), "--strict")
    assert (done.returncode, done.stderr) == (0, b"")


# strata scan


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    (folder / ".cursor" / "rules").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Use tabs.")
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    (folder / "GEMINI.md").write_text("")
    (folder / ".cursor" / "rules" / "sql.mdc").write_text("No SELECT *.")
    (folder / "package.json").write_text("x" * 40_000)
    (folder / "linked").symlink_to(".cursor")
    (folder / ".gitignore").write_text("[b-a]\n!\n")
    return folder


def test_a_scan_is_printed_as_a_table_by_kind_with_what_was_cut(home: Path, tools: Path) -> None:
    done = strata(home, "scan", str(tools))
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [" ".join(line.split()) for line in done.stdout.decode().splitlines()]
    assert lines == [
        str(tools),
        "5 files, 20,005 tokens; 3 folders looked through",
        "",
        "Instructions for agents tool bytes tokens",
        "AGENTS.md AGENTS.md 9 2",
        "CLAUDE.md Claude Code 9 2",
        "the same file as AGENTS.md",
        "GEMINI.md Gemini CLI 0 0",
        "empty",
        "",
        "Rules for agents, some only for certain files tool bytes tokens",
        ".cursor/rules/sql.mdc Cursor 12 3",
        "",
        "Manifests and build files tool bytes tokens",
        "package.json JavaScript 40,000 20,000",
        "",
        "Links to folders, not followed",
        f"linked leads to {tools}/.cursor",
        "",
        "Left out",
        f"ignore lines: {tools}/.gitignore and 1 more",
    ]


def test_bounds_and_their_kinds_are_told(home: Path, tools: Path) -> None:
    for number in range(200):
        (tools / f"{number:03}").mkdir()
        (tools / f"{number:03}" / "AGENTS.md").write_text("x")
    done = strata(home, "scan", str(tools))
    assert f"  files of a kind (instructions), limit 200: {tools}/197/AGENTS.md and 2 more\n" in done.stdout.decode()


def test_no_name_can_leave_its_line_or_steer_the_terminal(home: Path, tools: Path) -> None:
    (tools / "a\n\x1b[2J").mkdir()
    (tools / "a\n\x1b[2J" / "README.md").write_text("x")
    done = strata(home, "scan", str(tools))
    assert rb"  a\n\x1b[2J/README.md " in done.stdout
    assert b"\x1b" not in done.stdout


def test_the_scans_json_is_what_the_service_answers(home: Path, tools: Path, tmp_path: Path) -> None:
    body = {"workspace": {"source": "local", "cwd": str(tools)}}
    with serve(create_app(Settings(roots=(tmp_path,), home=home))) as address:
        served_bytes = httpx.post(f"{address}/v1/scan", json=body, trust_env=False).content
    done = strata(home, "scan", ".", "--json", cwd=tools)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == served_bytes + b"\n"


def test_the_scans_prompt_is_printed_alone(home: Path, tools: Path) -> None:
    answer = json.loads(strata(home, "scan", str(tools), "--json").stdout)
    done = strata(home, "scan", str(tools), "--prompt")
    assert done.stdout.decode() == answer["prompt"] + "\n"


def test_a_scan_prints_one_thing(home: Path, tools: Path) -> None:
    failed(strata(home, "scan", str(tools), "--json", "--prompt"), 2, "give --json or --prompt")


def test_a_folder_that_cannot_be_scanned_ends_with_3_and_one_that_is_not_text_with_2(home: Path, tools: Path) -> None:
    failed(strata(home, "scan", str(tools / "gone")), 3, "There is no folder")
    failed(strata(home, "scan", bytes(tools / "\udce9")), 2, "cannot be written as JSON")


# strata serve


def test_it_says_where_it_listens_answers_and_ends_on_sigterm(home: Path, project: Path, tmp_path: Path) -> None:
    with served(home, "--root", str(tmp_path)) as (address, process):
        answered(httpx.post(f"{address}/v1/context", json=local(project), trust_env=False))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
        assert process.returncode in {0, -signal.SIGTERM}
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["route"] for line in lines if line["event"] == "request"] == ["/healthz", "/v1/context"]


def test_it_ends_on_an_interrupt(home: Path) -> None:
    with served(home) as (_, process):
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode in {0, -signal.SIGINT, 130}
    assert b"Traceback" not in told


def test_it_listens_on_other_addresses_with_a_key(home: Path) -> None:
    with served(home, "--host", "0.0.0.0", STRATA_API_KEYS="k") as (address, _):
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{address}/v1/models", trust_env=False).status_code == 401
        assert httpx.get(f"{address}/v1/models", headers={"x-api-key": "k"}, trust_env=False).status_code == 200


def test_it_does_not_listen_on_other_addresses_without_keys(home: Path) -> None:
    done = strata(home, "serve", "--host", "0.0.0.0")
    failed(done, 2, "host 0.0.0.0 is reachable from other machines: set STRATA_API_KEYS")


def test_a_port_that_is_taken_is_told(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = strata(home, "serve", "--port", str(port))
    failed(done, 1, f"cannot listen on 127.0.0.1, port {port}: Address already in use. Give another --port or --host.")


def test_an_address_that_is_not_this_machines_is_told(home: Path) -> None:
    done = strata(home, "serve", "--host", "203.0.113.7", STRATA_API_KEYS="k")
    failed(done, 1, "cannot listen on 203.0.113.7")


def test_a_relative_root_is_taken_from_here(home: Path) -> None:
    (home / "code" / "p").mkdir(parents=True)
    (home / "other").mkdir()
    with served(home, "--root", "code") as (address, _):
        codes = [
            httpx.post(f"{address}/v1/context", json=local(folder), trust_env=False).status_code
            for folder in (home / "code" / "p", home / "other")
        ]
    assert codes == [200, 404]


def test_a_root_that_does_not_exist_ends_with_2(home: Path) -> None:
    failed(strata(home, "serve", "--root", "no/such"), 2, "does not exist")


def test_a_root_that_is_a_file_ends_with_2(home: Path, project: Path) -> None:
    failed(strata(home, "serve", "--root", str(project / "CLAUDE.md")), 2, "is a file")


def test_a_root_of_the_environment_that_is_not_there_yet_is_told(home: Path) -> None:
    with served(home, STRATA_ROOTS=str(home / "later")) as (_, process):
        assert process.stderr is not None
        told = json.loads(process.stderr.readline())
    assert (told["event"], told["number"]) == ("root_missing", 1)
    assert str(home) not in json.dumps(told)


def test_settings_come_from_a_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "strata.toml").write_text('api_keys = ["k"]\nport = 1')
    with served(home, "--config", str(tmp_path / "strata.toml")) as (address, _):
        assert httpx.get(f"{address}/v1/models", trust_env=False).status_code == 401


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "which cannot be read: [Errno 2] No such file"),
        ("port =", "which cannot be read: "),
        ("prot = 1", "strata: prot: there is no such setting"),
        ("port = 70000", "strata: port: Input should be less than or equal to 65535"),
    ],
)
def test_a_file_of_settings_that_cannot_be_used_ends_with_2(text: str | None, said: str, home: Path) -> None:
    if text is not None:
        (home / "strata.toml").write_text(text)
    failed(strata(home, "serve", STRATA_CONFIG=str(home / "strata.toml")), 2, said)


@pytest.mark.parametrize("workers", ["0", "-1", "many"])
def test_a_number_of_workers_that_makes_no_sense_ends_with_2(workers: str, home: Path) -> None:
    failed(strata(home, "serve", "--workers", workers), 2, "workers")


# The rest


def test_the_contract_is_printed_whatever_the_surroundings(home: Path) -> None:
    done = strata(home, "openapi", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii", STRATA_ROOTS="/nowhere")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == CONTRACT.read_bytes()


def test_the_version_is_printed(home: Path) -> None:
    done = strata(home, "--version")
    assert (done.returncode, done.stdout) == (0, f"strata {__version__}\n".encode())


def test_no_command_prints_what_there_is(home: Path) -> None:
    done = strata(home)
    told = (done.stdout + done.stderr).decode()
    assert all(command in told for command in ("serve", "context", "openapi"))


def test_the_same_text_is_inline_and_on_disk(home: Path, project: Path) -> None:
    files = {str(project / name): (project / name).read_text() for name in ("CLAUDE.md", "docs.md", "src/CLAUDE.md")}
    done = strata(home, "context", str(project), "--request", "-", given=b'{"date": "2026-11-30"}')
    body = inline(files, workspace={"cwd": str(project), "home": str(home)}, model="sonnet")
    with serve(create_app(Settings(roots=(), home=home))) as address:
        answer = answered(httpx.post(f"{address}/v1/context", json=body, trust_env=False))
    assert json.loads(done.stdout)["request"] == answer["request"]


def test_a_key_that_is_made_opens_with_the_row_that_is_told(home: Path, tmp_path: Path) -> None:
    made = strata(home, "key", "ci")
    key, told = made.stdout.decode().strip(), made.stderr.decode()
    assert key not in told
    file = tmp_path / "keys.toml"
    file.write_text(told)
    with served(home, STRATA_KEYS_FILE=str(file)) as (address, _):
        assert httpx.get(f"{address}/v1/models", trust_env=False).status_code == 401
        assert httpx.get(f"{address}/v1/models", headers={"x-api-key": key}, trust_env=False).status_code == 200


def test_a_key_without_a_plain_name_is_not_made(home: Path) -> None:
    failed(strata(home, "key", "C I"), 2, "a name has small letters")


def test_a_file_of_keys_that_cannot_be_read_keeps_it_from_starting(home: Path, tmp_path: Path) -> None:
    done = strata(home, "serve", "--port", "0", STRATA_KEYS_FILE=str(tmp_path / "none.toml"))
    failed(done, 1, "which cannot be used: No such file")
