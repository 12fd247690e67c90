"""``strata explain``: an answer told to people."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.wire.schema import ContextAnswer
from tests.asking import inline

ROOT = Path(__file__).parents[1]
STRATA = [sys.executable, "-c", "from app.cli import main; main()"]
P = "/home/dev/p"

FILES: dict[str, Any] = {
    f"{P}/CLAUDE.md": "Use tabs. See @docs/a.md and @docs/gone.md\nand @docs/my guide.md",
    f"{P}/docs/a.md": "The docs. @b.md",
    f"{P}/docs/b.md": "More.",
    f"{P}/docs/my guide.md": "Guide.",
    f"{P}/.claude/rules/kt.md": "---\nglobs: '*.kt'\n---\nKotlin.",
    f"{P}/.claude/rules/sql.md": '---\npaths: "**/*.sql"\n---\nNo SELECT *.',
    f"{P}/src/CLAUDE.md": "Source.",
    f"{P}/src/.claude/rules/x.md": "---\nalwaysApply: false\n---\nX.",
}

TOLD = """\
/home/dev/p with claude-sonnet-4-5
226 tokens of 200,000 (0 %)

Loads, in this order
  CLAUDE.md                                                    Project       38
    └ docs/a.md                                                Project       26
      └ docs/b.md                                              Project       23
  .claude/rules/kt.md                                          Project       27
    The key globs has no effect here: write paths: to make the rule conditional.

Waits
  .claude/rules/sql.md
    condition_not_met: waits until a file that fits its paths is touched

Does not load
  docs/gone.md
    not_found: there is no such file, line 1 of CLAUDE.md
  docs/my
    not_found: there is no such file, line 2 of CLAUDE.md
    The path is cut at a space: write @docs/my\\ guide.md with a backslash before the space.
  and 10 usual places where there is no file (--all lists them)

Largest parts, in tokens
       110  user_context
        38  memory:/home/dev/p/CLAUDE.md
        27  memory:/home/dev/p/.claude/rules/kt.md
        26  memory:/home/dev/p/docs/a.md
        23  memory:/home/dev/p/docs/b.md
         2  system:custom

Compaction
  200,000 window (model table)
  − 20,000 reserved for the summary → 180,000 effective
  − 13,000 buffer → compacts at 167,000
  used 226: 100 % left before compaction, 0 % of the window
"""


def surroundings(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), "TERM": "xterm", **more}


def explain(
    folder: Path,
    *arguments: str,
    files: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    **more: Any,
) -> subprocess.CompletedProcess[bytes]:
    """What the command says of files in the request; its prompt is short, so that no wording of ours is counted."""
    body = inline(
        FILES if files is None else files, system_prompt={"custom": "Be brief."}, cache={"enabled": False}, **more
    )
    return subprocess.run(
        [*STRATA, "explain", P, "--request", "-", *arguments],
        input=json.dumps(body).encode(),
        env=surroundings(folder, **(environment or {})),
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=60,
    )


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_it_tells_what_loads_what_waits_what_does_not_and_what_it_costs(tmp_path: Path) -> None:
    assert said(explain(tmp_path)) == TOLD


def test_touched_files_bring_what_waits_with_its_hints(tmp_path: Path) -> None:
    told = said(explain(tmp_path, "--touched", f"{P}/src/a.sql"))
    shown = told[told.index("Arrives") : told.index("Does not load")]
    assert shown == (
        "Arrives with the touched files\n"
        "  src/CLAUDE.md                                                Project       21\n"
        "    nested, brought by src/a.sql\n"
        "  src/.claude/rules/x.md                                       Project       22\n"
        "    nested, brought by src/a.sql\n"
        "    The key alwaysApply has no effect here: write paths: to make the rule conditional.\n"
        "  .claude/rules/sql.md                                         Project       24\n"
        "    conditional rule, brought by src/a.sql\n"
        "\n"
    )


def test_all_lists_the_usual_places_too(tmp_path: Path) -> None:
    told = said(explain(tmp_path, "--all"))
    assert "usual places" not in told
    absent = re.findall(r"^  (\S+)\n    not_found: there is no such file$", told, re.MULTILINE)
    assert len(absent) == 10
    assert {"CLAUDE.local.md", "/home/CLAUDE.md", "/etc/claude-code/CLAUDE.md"} <= set(absent)


def test_json_is_the_answer_itself(tmp_path: Path) -> None:
    answer = json.loads(said(explain(tmp_path, "--json", "--touched", f"{P}/src/a.sql")))
    ContextAnswer.model_validate(answer)
    assert [file["path"] for file in answer["memory"]["attachments"]] == [
        f"{P}/src/CLAUDE.md",
        f"{P}/src/.claude/rules/x.md",
        f"{P}/.claude/rules/sql.md",
    ]


def test_a_folder_with_nothing_in_it(tmp_path: Path) -> None:
    told = said(explain(tmp_path, files={P: {"directory": True}}))
    assert "Loads, in this order\n  nothing\n" in told
    for title in ("Arrives", "Waits", "Does not load", "Warnings"):
        assert title not in told


def test_warnings_are_told_with_their_place(tmp_path: Path) -> None:
    told = said(explain(tmp_path, files={f"{P}/.claude/settings.json": "{"}))
    assert f"Warnings\n  settings_unreadable ({P}/.claude/settings.json): It is not valid JSON" in told


def test_where_an_exclude_was_written_is_told(tmp_path: Path) -> None:
    told = said(explain(tmp_path, memory={"exclude": [f"{P}/gone/**"]}))
    assert "  gone/**\n    exclude_never_matched: " in told
    assert ", from memory.exclude\n" in told


def test_parts_beyond_the_largest_are_summed(tmp_path: Path) -> None:
    rules = {f"{P}/.claude/rules/{number}.md": "Rule." for number in range(10)}
    told = said(explain(tmp_path, files=rules))
    values = json.loads(said(explain(tmp_path, "--json", files=rules)))
    parts = sorted((part["tokens"] for part in values["tokens"]["parts"]), reverse=True)
    assert f"  {sum(parts[8:]):>8,}  {len(parts) - 8} more\n" in told


def test_a_folder_on_disk(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "CLAUDE.md").write_text("Use tabs.")
    (project / "src" / "CLAUDE.md").write_text("Source.")
    environment = surroundings(tmp_path)
    command = [*STRATA, "explain", ".", "--touched", "src/a.py", "--model", "haiku"]
    told = said(subprocess.run(command, env=environment, cwd=project, capture_output=True, check=False, timeout=60))
    assert told.startswith(f"{project} with claude-haiku-5-5\n")
    assert re.search(r"^  CLAUDE\.md +Project +\d+$", told, re.MULTILINE)
    assert "    nested, brought by src/a.py\n" in told


@pytest.mark.parametrize(
    ("arguments", "code"), [(["/no/such/folder"], 3), ([], 2), ([".", "--request", "/no/such/file"], 2)]
)
def test_it_fails_as_the_other_commands_do(arguments: list[str], code: int, tmp_path: Path) -> None:
    command = [*STRATA, "explain", *arguments]
    done = subprocess.run(
        command, env=surroundings(tmp_path), cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (code, b"")
    assert b"Traceback" not in done.stderr


# Terminals


def on_a_terminal(folder: Path, files: dict[str, Any], **environment: str) -> str:
    """What the command writes to a terminal."""
    request = folder / "request.json"
    request.write_text(json.dumps(inline(files, system_prompt={"custom": "Be brief."}, cache={"enabled": False})))
    ours, theirs = pty.openpty()
    command = [*STRATA, "explain", P, "--request", str(request)]
    with subprocess.Popen(
        command, env=surroundings(folder, **environment), cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        written = bytearray()
        while chunk := _read(ours):
            written += chunk
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other side is closed
        return b""


ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_on_a_terminal_it_has_colours_and_says_the_same(tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, FILES)
    assert "\x1b[1mLoads, in this order\x1b[0m" in shown
    assert "\x1b[33m  .claude/rules/sql.md\x1b[0m" in shown
    assert ESCAPE.sub("", shown) == TOLD


def test_in_a_pipe_it_has_none(tmp_path: Path) -> None:
    assert "\x1b" not in said(explain(tmp_path, environment={"FORCE_COLOR": "1"}))


def test_nor_where_somebody_wants_none(tmp_path: Path) -> None:
    assert on_a_terminal(tmp_path, FILES, NO_COLOR="1") == TOLD


def test_a_name_commands_no_terminal(tmp_path: Path) -> None:
    files = {
        f"{P}/.claude/rules/\x1b[2J\x07.md": "R",
        f"{P}/.claude/rules/a\nb.md": "R",
        f"{P}/.claude/rules/\u202ex.txt": "R",
        f"{P}/CLAUDE.md": "@gone\x1b]0;title\x07.md",
    }
    shown = on_a_terminal(tmp_path, files)
    assert set(re.findall(r"[^\x20-\x7e\n└−→]", ESCAPE.sub("", shown))) == set()
    assert r"\x1b[2J\x07.md" in shown
    assert r"a\x0ab.md" in shown


def test_letters_that_a_pipe_does_not_have_are_replaced(tmp_path: Path) -> None:
    done = explain(tmp_path, environment={"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"? docs/a.md" in done.stdout
