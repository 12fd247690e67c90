"""How much of the system prompt ten different people share, in both layouts: ``python -m tests.bench.shared_prefix``.

Their workspaces are built in a temporary folder, each a git repository with a home of its own, and are asked for over
HTTP from a server process. Tools are the same for all: they stand in front of the system prompt.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any

import httpx

from tests.bench.hostile import server, write
from tests.reference.programs import first_commit, git

LAYOUTS = ("classic", "late")
MODEL = "claude-sonnet-5-5"
QUESTION = {"role": "user", "content": "Add a discount field."}
TOOLS = [
    {"name": name, "description": f"{name} does one thing.", "input_schema": {"type": "object"}}
    for name in ("Bash", "Edit", "Read", "Skill", "Task")
]
BYTES_PER_TOKEN = 4
LANGUAGES = ("French", "German", "Japanese", "Portuguese")
STYLES = ("Explanatory", "Learning", "Terse")
SHELLS = ("bash", "zsh", "fish")
PLATFORMS = ("linux", "macos")


@dataclass(frozen=True)
class Person:
    """A working directory, a home, and what this person asks for beside them."""

    number: int
    cwd: Path
    home: Path

    def workspace(self) -> dict[str, Any]:
        return {
            "source": "local",
            "cwd": str(self.cwd),
            "home": str(self.home),
            "managed_dir": str(self.home / "nowhere"),
            "platform": PLATFORMS[self.number % len(PLATFORMS)],
            "shell": SHELLS[self.number % len(SHELLS)],
            "os_version": f"6.{self.number}",
        }

    def settings(self) -> dict[str, Any]:
        language = {"language": LANGUAGES[self.number % len(LANGUAGES)]} if self.number % 2 else {}
        style = {"output_style": STYLES[self.number % len(STYLES)]} if self.number % 3 else {}
        return language | style | {"scratchpad_dir": f"/scratch/{self.number}"}

    def servers(self) -> list[dict[str, str]]:
        """None, one or two MCP servers."""
        names = ("docs", "search")[: self.number % 3]
        return [{"name": name, "instructions": f"Ask {name}{self.number} first."} for name in names]

    def body(self, layout: str) -> dict[str, Any]:
        return {
            "model": MODEL,
            "date": "2026-11-30",
            "workspace": self.workspace(),
            "tools": TOOLS,
            "mcp_servers": self.servers(),
            "settings": self.settings(),
            "messages": [QUESTION],
            "memory": {"walk_stop": str(self.cwd)},
            "cache": {"layout": layout},
        }


@dataclass(frozen=True)
class Measured:
    """``shared`` and ``blocks`` are bytes; the latter of whole blocks, which is what a cache can read."""

    layout: str
    shared: int
    blocks: int
    of_system: float
    of_front: float
    prefixes: int


def built(root: Path, number: int) -> Person:
    """A project with one commit and an untracked file, and a home with notes, a style and a skill."""
    person = Person(number, root / f"user{number}" / f"project{number}", root / f"user{number}")
    git(person.cwd, "init", "--quiet", f"--initial-branch=work{number}")
    first_commit(person.cwd)
    write(person.cwd, "CLAUDE.md", f"# Project {number}\n\n" + f"A rule of project {number}.\n" * 20)
    write(person.cwd, f"new{number}.py", "")
    write(person.cwd, f".claude/skills/ship{number}/SKILL.md", f"Ships project {number}.\n")
    write(person.home, ".claude/CLAUDE.md", f"A wish of user {number}.\n")
    write(person.home, ".claude/output-styles/terse.md", "---\nname: Terse\n---\nUse few words.\n")
    return person


def texts(answer: dict[str, Any]) -> list[bytes]:
    return [block["text"].encode() for block in answer["request"]["system"]]


def shared_start(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """What all rows begin with."""
    same = takewhile(lambda column: all(one == column[0] for one in column), zip(*rows, strict=False))
    return [column[0] for column in same]


def in_front(answer: dict[str, Any]) -> int:
    """Bytes of all that stands before the conversation: tools, system prompt, instructions and what follows them."""
    blocks = [block for message in answer["request"]["messages"][:-1] for block in message["content"]]
    tools = len(json.dumps(answer["request"]["tools"], ensure_ascii=False).encode())
    return tools + sum(map(len, texts(answer))) + sum(len(block["text"].encode()) for block in blocks)


def measured(layout: str, people: Sequence[Person], client: httpx.Client) -> Measured:
    answers = []
    for person in people:
        response = client.post("/v1/context", json=person.body(layout))
        response.raise_for_status()
        answers.append(response.json())
    prompts = [b"".join(texts(answer)) for answer in answers]
    shared = len(shared_start(prompts))
    return Measured(
        layout,
        shared,
        sum(map(len, shared_start([texts(answer) for answer in answers]))),
        shared / mean(map(len, prompts)),
        shared / mean(map(in_front, answers)),
        len({answer["cache"]["prefix_sha256"] for answer in answers}),
    )


def table(rows: Sequence[Measured]) -> str:
    head = (
        "layout",
        "shared bytes of `system`",
        "rough tokens",
        "in whole blocks",
        "of the system prompt",
        "of all in front of the conversation",
        "distinct `prefix_sha256`",
    )
    lines = [head, ("---", *["--:"] * (len(head) - 1))]
    lines += [
        (
            row.layout,
            f"{row.shared:,}",
            f"{row.shared / BYTES_PER_TOKEN:,.0f}",
            f"{row.blocks:,}",
            f"{row.of_system:.0%}",
            f"{row.of_front:.0%}",
            str(row.prefixes),
        )
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        people = [built(root, number) for number in range(10)]
        with server(root) as (address, _), httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            rows = [measured(layout, people, client) for layout in LAYOUTS]
    sys.stdout.write(f"{len(people)} workspaces, {MODEL}\n\n{table(rows)}\n")


if __name__ == "__main__":
    main()
