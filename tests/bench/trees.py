"""Trees for benchmarks, and what is asked of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bench.hostile import write
from tests.reference.programs import git

MODEL = "claude-sonnet-5-5"
LINE = "One rule of this project, in a few words that somebody wrote down.\n"
TEXTS_PER_ANSWER = 4
"""How often an answer holds the text of a file."""

EVERYTHING: dict[str, Any] = {"allow_external_includes": True}
"""Options with which the same files of a tree load whether or not a repository is around it."""

SMALLEST_ANSWER = 26_000
"""About what an answer without any file has, in bytes."""


def body(cwd: Path, session: str | None, **more: Any) -> dict[str, Any]:
    """Of ``POST /v1/context`` for a folder on the server's disk, with no user and no managed level."""
    nowhere = str(cwd / "nowhere")
    workspace = {"source": "local", "cwd": str(cwd), "home": nowhere, "managed_dir": nowhere}
    named = {"session_id": session} if session else {}
    messages = [{"role": "user", "content": "Add a discount field."}]
    return {"model": MODEL, "date": "2026-11-30", "workspace": workspace, "messages": messages, **named, **more}


def inline_body(path: str, text: str) -> dict[str, Any]:
    workspace = {"source": "inline", "cwd": path, "platform": "linux", "files": {f"{path}/CLAUDE.md": text}}
    messages = [{"role": "user", "content": "Add a discount field."}]
    return {"model": MODEL, "date": "2026-11-30", "workspace": workspace, "messages": messages}


def posted(values: dict[str, Any], *headers: str, path: str = "/v1/context") -> bytes:
    """A whole HTTP request; ``headers`` are lines."""
    content = json.dumps(values).encode()
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    return _headed([*lines, f"content-length: {len(content)}", *headers]) + content


def polled(session: str, *headers: str) -> bytes:
    return _headed([f"GET /v1/sessions/{session}/context HTTP/1.1", "host: 127.0.0.1", *headers])


def readdressed(request: bytes, path: str) -> bytes:
    """The same request to another path."""
    method, _, rest = request.split(b" ", 2)
    return b" ".join((method, path.encode(), rest))


def _headed(lines: list[str]) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode()


def text_for(answer_bytes: int) -> str:
    """The text of a CLAUDE.md whose answer has about so many bytes, where that is possible."""
    return LINE * max(1, (answer_bytes - SMALLEST_ANSWER) // (TEXTS_PER_ANSWER * len(LINE)))


def sized(folder: Path, answer_bytes: int) -> Path:
    """A folder with one CLAUDE.md."""
    write(folder, "CLAUDE.md", text_for(answer_bytes))
    return folder


def typical(folder: Path, mark: str = "") -> Path:
    """A repository as there are many: four levels, 12 files that load, 30 KB; the folder to work in.

    ``mark`` stands in every file, so that no two such trees have a text in common.
    """
    cwd = folder / "services" / "billing" / "api"
    texts = {
        "CLAUDE.md": "# Shop\n\nSee @docs/style.md, @docs/testing.md and @docs/release.md\n",
        "CLAUDE.local.md": "# Mine\n\n",
        "docs/style.md": "# Style\n\n`npm test` runs it all.\n\n",
        "docs/testing.md": "# Testing\n\n",
        "docs/release.md": "# Release <!-- nobody reads this -->\n\n",
        ".claude/rules/commits.md": "# Commits\n\n",
        ".claude/rules/errors.md": "# Errors\n\n",
        ".claude/rules/sql.md": '---\npaths: "**/*.sql"\n---\n\n# SQL\n\n',
        "services/CLAUDE.md": "# Services\n\n",
        "services/billing/CLAUDE.md": "# Billing\n\nSee @docs/money.md\n",
        "services/billing/docs/money.md": "# Money\n\n",
        "services/billing/api/CLAUDE.md": "# The API\n\n",
        "services/billing/api/.claude/rules/routes.md": "# Routes\n\n",
    }
    for path, text in texts.items():
        write(folder, path, f"{text}{mark}\n{LINE * 35}")
    for number in range(40):
        write(cwd, f"source/part{number}.ts", "export {}\n")
    return cwd


def repository(folder: Path) -> None:
    """Makes a repository with one commit of all that is in the folder, and one change that is not committed."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    write(folder, "new.txt", "")


def unrelated(folder: Path, count: int, mark: str = "") -> Path:
    """So many folders beside the one to work in, each with files that do not concern it."""
    for number in range(count):
        beside = f"packages/p{number // 50}/q{number}"
        write(folder, f"{beside}/CLAUDE.md", f"{mark} {LINE}")
        write(folder, f"{beside}/index.ts", "export {}\n")
    write(folder, "CLAUDE.md", f"{mark}\n{LINE}")
    write(folder, "app/CLAUDE.md", f"{mark}\n{LINE}")
    return folder / "app"


def committed(folder: Path, count: int, mark: str = "") -> Path:
    """As `unrelated`, in a git repository."""
    cwd = unrelated(folder, count, mark)
    repository(folder)
    return cwd


def deep(folder: Path, count: int, mark: str = "") -> Path:
    """So many folders above the one to work in, each with a CLAUDE.md."""
    cwd = folder
    for number in range(count):
        cwd = cwd / f"level{number}"
        write(cwd, "CLAUDE.md", f"{mark} {number}\n{LINE}")
    return cwd


def ruled(folder: Path, count: int, mark: str = "") -> Path:
    """So many rules, every second with a condition."""
    for number in range(count):
        front = f'---\npaths: "src/{number}/**/*.ts"\n---\n\n' if number % 2 else ""
        write(folder, f".claude/rules/{number:04}.md", f"{front}{mark} {number}\n{LINE * 3}")
    return folder


def including(folder: Path, count: int, mark: str = "") -> Path:
    """So many includes: up to 60 from the CLAUDE.md, the rest from those."""
    first = min(count, 60)
    write(folder, "CLAUDE.md", f"{mark}\n" + "".join(f"- See @docs/{number}.md\n" for number in range(first)))
    for number in range(count):
        more = "".join(f"- See @{other}.md\n" for other in range(number + 60, count, 60)) if number < first else ""
        write(folder, f"docs/{number}.md", f"{mark} {number}\n{LINE * 3}{more}")
    return folder
