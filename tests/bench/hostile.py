"""How long an answer takes for a tree made to do harm, beside a sound one: ``python -m tests.bench.hostile``.

Both trees are built in a temporary folder and asked for over HTTP, each from a server process of its own. Linux only:
the memory is read from ``/proc``.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
TURNS = 9
RULES = 100_000
IN_FOLDERS = 40
BOMBS = (
    '"' + "{a,b}" * 60 + '"',
    ",".join(["{1..100000}"] * 5),
    '"' + "{" * 5000 + "}" * 5000 + '"',
    '"' + "{a,{b,{c,{d,e}}}}" * 12 + '"',
    '["' + '","'.join(f"{number}*" for number in range(3000)) + '"]',
    '"' + "**/a/" * 200 + '"',
    '"' + "*a" * 400 + '"',
    '["' + '","'.join(f"*a{'?' * 20}{number}" for number in range(900)) + '"]',
)
GIGABYTE = 1024**3
LONG_TEXTS = (
    "@x\n\n" + "- a\n" * 200_000,
    "# @x\n\n" * 100_000,
    "@x\n" + "> - " * 49 + "a\n" + "a\n" * 300_000,
    "@x\n" + ("[" * 400 + "\n") * 2_000,
    "@x\n" + ("*" * 7_000 + "a\n") * 140,
)
"""Markdown of nearly a megabyte each that a parser takes minutes for."""

COSTLY = "\n\n".join(
    ["@x [" * 2_000, "@x *a **b " * 700, "@x ![[" * 1_300, "> " * 5_000 + "@y", "<!-- " * 50_000, "- " * 3_000 + "@z"]
    * 4
)
"""Markdown that a parser takes long for."""


@dataclass(frozen=True)
class Measured:
    """Times in seconds, memory in MiB."""

    name: str
    first: float
    median: float
    worst: float
    peak: float
    answer: dict[str, Any]


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def sound(tree: Path) -> None:
    """A project as there are many: 60 rules, half of them with a condition, 20 includes, nested files."""
    write(tree, "CLAUDE.md", "# Shop\n\n" + "\n".join(f"- See @docs/{number}.md" for number in range(20)))
    for number in range(20):
        write(tree, f"docs/{number}.md", f"# Part {number}\n\n" + "A sentence of the documentation.\n" * 40)
    for number in range(60):
        front = f'---\npaths: "src/{number}/**/*.ts"\n---\n\n' if number % 2 else ""
        write(tree, f".claude/rules/{number:02}.md", front + "One rule, in a few words.\n" * 10)
    write(tree, "src/7/CLAUDE.md", "Nested.")
    write(tree, "src/7/x/a.ts", "")


def hostile(tree: Path) -> None:
    """100,000 rules, brace bombs, circles and fans of includes, costly Markdown, sparse gigabytes, FIFOs, loops."""
    above = tree.parent / ".claude" / "rules"  # considered first, so that the many rules do not hide the bombs
    for number in range(200):
        bomb = BOMBS[number % len(BOMBS)]
        write(above, f"{number:03}.md", f"---\npaths: {bomb}\n---\nBomb {number}")
    (above / "up").symlink_to("..")
    (above / "self").symlink_to("self")
    for number in range(20):
        os.mkfifo(above / f"pipe{number}.md")
    write(tree.parent, "CLAUDE.md", COSTLY)
    rules = tree / ".claude" / "rules"
    for number in range(RULES):
        folder = rules if number % 2 else rules / f"f{number // 2 % IN_FOLDERS:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06}.md").write_bytes(b"A rule among many. See @none.md")
    for number, text in enumerate(LONG_TEXTS):
        write(above, f"long{number}.md", text)
    fan = " ".join(f"@fan/{number}.md" for number in range(100))
    around = " ".join(f"@{number}.md @../CLAUDE.md" for number in range(100))
    write(tree, "CLAUDE.md", f"@circle.md {fan}")
    write(tree, "circle.md", "@CLAUDE.md @circle.md @./circle.md")
    for number in range(100):
        write(tree, f"fan/{number}.md", around)
    write(tree, "src/7/x/a.ts", "")
    for path in ("CLAUDE.local.md", ".claude/rules/big.md", "src/CLAUDE.md"):
        with (tree / path).open("wb") as file:
            file.truncate(GIGABYTE)
    os.mkfifo(tree / "src" / "CLAUDE.local.md")


@contextmanager
def server(root: Path) -> Iterator[tuple[str, int]]:
    """A server process that may read ``root``; its address and process id."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve", "--port", "0", "--root", str(root)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(root / "home")}
    environment["STRATA_LOG_LEVEL"] = "critical"
    with subprocess.Popen(command, env=environment, cwd=root, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"http://[\w.:]+", process.stderr.readline() if process.stderr else "")
            if found is None:
                raise SystemExit("the server did not start")
            yield found[0], process.pid
        finally:
            process.terminate()


def peak(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else float("nan")


def measure(name: str, build: Callable[[Path], None], root: Path) -> Measured:
    tree = root / name / "project"
    tree.mkdir(parents=True)
    build(tree)
    nowhere = str(root / "nowhere")
    workspace = {"source": "local", "cwd": str(tree), "home": nowhere, "managed_dir": nowhere}
    body = {"model": "sonnet", "workspace": workspace, "touched": [{"path": str(tree / "src/7/x/a.ts")}]}
    body["memory"] = {"walk_stop": str(tree.parent)}
    with server(root) as (address, process), httpx.Client(base_url=address, timeout=600, trust_env=False) as client:
        client.get("/healthz")
        times = []
        for _ in range(TURNS):
            started = time.perf_counter()
            response = client.post("/v1/context", json=body)
            times.append(time.perf_counter() - started)
            response.raise_for_status()
        return Measured(name, times[0], statistics.median(times), max(times), peak(process), response.json())


def table(rows: list[Measured]) -> str:
    head = ("tree", "first", "median", "worst", "peak memory", "files", "rows", "answer")
    lines = [head, ("---", *["--:"] * (len(head) - 1))]
    for row in rows:
        memory = row.answer["memory"]
        size = len(str(row.answer)) / 1024**2
        lines.append(
            (
                row.name,
                *(f"{seconds:.3f} s" for seconds in (row.first, row.median, row.worst)),
                f"{row.peak:.0f} MiB",
                f"{len(memory['files']) + len(memory['attachments']):,}",
                f"{len(memory['report']):,}",
                f"{size:.1f} MiB",
            )
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        rows = [measure(build.__name__, build, root) for build in (sound, hostile)]
    sys.stdout.write(
        f"{TURNS} requests each, {os.cpu_count()} cores, Python {sys.version.split()[0]}\n\n{table(rows)}\n"
    )


if __name__ == "__main__":
    main()
