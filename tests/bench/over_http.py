"""Answers over HTTP from a process of its own, each kind beside the floor that sends the same bytes."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.bench.floor import NOT_OURS, Fixed, floor
from tests.bench.load import MARK, Job
from tests.bench.processes import (
    ROOT,
    SERVE,
    SERVER_CORE,
    Driver,
    NotStartedError,
    Served,
    environment_of,
    pinned,
    strata,
)
from tests.bench.rounds import Figures, Pace, Subject, measured
from tests.bench.trees import body, inline_body, polled, posted, readdressed, repository, sized

SIZES = (20_000, 100_000, 400_000)
"""Of answers, in bytes; the first is as small as an answer can be."""

CLIENTS = (1, 8, 64)
COMPRESSED_SIZE, COMPRESSED_CLIENTS = 100_000, 8
"""Of the row with zstd."""

CONTEXT = "/v1/sessions/{}/context"


@dataclass(frozen=True, slots=True)
class Asked:
    """A kind of request: one for each client's session, and the answer that the floor gives in its place.

    ``size`` is that of the answer which is not sent, in bytes. ``clients``: the only number of them that this kind is
    measured with.
    """

    name: str
    requests: tuple[bytes, ...]
    answer: Fixed
    numbered: bool = False
    size: int | None = None
    clients: int | None = None

    @property
    def path(self) -> str:
        return "/" + self.name.replace(" ", "-")

    def subjects(self, served: Served, bare: Served) -> tuple[Subject, Subject]:
        beside = f"floor of {self.name}"
        requests = tuple(readdressed(request, self.path) for request in self.requests)
        return (
            Subject(beside, bare, requests, status=self.answer.status, numbered=self.numbered, size=self.size),
            Subject(self.name, served, self.requests, beside, self.answer.status, self.numbered, self.size),
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """One kind of answer and its floor."""

    floor: Figures
    subject: Figures


def compared(root: Path, driver: Driver, sizes: Sequence[int], clients: Sequence[int], pace: Pace) -> list[Compared]:
    """For each size and number of clients: every kind, in rounds that its floor and it take in turn."""
    with strata(root) as served:
        return [
            row
            for size in sizes
            for row in beside_the_floor(driver, served, asked(size, root, served, driver, max(clients)), clients, pace)
        ]


def beside_the_floor(
    driver: Driver, served: Served, kinds: Sequence[Asked], clients: Sequence[int], pace: Pace
) -> list[Compared]:
    with tempfile.TemporaryDirectory() as folder, floor({one.path: one.answer for one in kinds}, Path(folder)) as bare:
        return [
            Compared(*measured(driver, one.subjects(served, bare), number, pace))
            for number in clients
            for one in kinds
            if one.clients in {None, number}
        ]


def asked(size: int, root: Path, served: Served, driver: Driver, most: int) -> list[Asked]:
    """Every kind that the server has, with sessions that have had their first turns."""
    tree = sized(root / f"of{size}", size)
    held = sized(root / f"held{size}", size)
    repository(held)
    sessions = [f"warm-{size}-{number}" for number in range(most)]
    warm = tuple(posted(body(tree, session)) for session in sessions)
    packed = tuple(posted(body(tree, session), "accept-encoding: zstd") for session in sessions)
    checked = tuple(posted(body(tree, f"validated-{session}", freshness="validate")) for session in sessions)
    in_git = tuple(posted(body(held, f"git-{session}", freshness="validate")) for session in sessions)
    inline = (posted(inline_body("/home/dev/shop", (tree / "CLAUDE.md").read_text())),)
    cold = (posted(body(tree, f"cold-{size}-{MARK.decode()}")),)
    prime(driver, served, (*warm, *checked, *in_git, *inline))
    repeated = [
        Asked("warm", warm, answer_to(served, warm[0])),
        Asked("validated", checked, answer_to(served, checked[0])),
        Asked("validated, in git", in_git, answer_to(served, in_git[0])),
        Asked("inline, no session", inline, answer_to(served, inline[0])),
        Asked("cold", cold, answer_to(served, warm[0]), numbered=True),
    ]
    zstd = Asked("warm, zstd", packed, answer_to(served, packed[0]), clients=COMPRESSED_CLIENTS)
    return [*repeated, *polls(served, sessions), *([zstd] if size == COMPRESSED_SIZE else [])]


def polls(served: Served, sessions: Sequence[str]) -> list[Asked]:
    """None where the server has no such address."""
    tags = [answer_to(served, polled(session)) for session in sessions]
    if tags[0].status == httpx.codes.NOT_FOUND:
        return []
    known = tuple(
        polled(session, f"if-none-match: {dict(answer.headers)['etag']}")
        for session, answer in zip(sessions, tags, strict=True)
    )
    return [
        Asked("warm GET", tuple(map(polled, sessions)), tags[0]),
        Asked("304", known, answer_to(served, known[0]), size=len(tags[0].body)),
    ]


def prime(driver: Driver, served: Served, requests: tuple[bytes, ...], times: int = 2) -> None:
    """Sends all in turn, so often."""
    job = Job(served.port, requests, seconds=3600, most=times * len(requests), number_from=0)
    driver.run(job)


def answer_to(served: Served, request: bytes) -> Fixed:
    """What the server answers now, with the headers that are its own."""
    head, _, content = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {"accept-encoding": "identity"} | dict(line.split(": ", 1) for line in lines)
    with httpx.Client(base_url=served.address, timeout=60, trust_env=False) as client:
        answer = client.send(client.build_request(method, path, headers=headers, content=content), stream=True)
        raw = b"".join(answer.iter_raw())
        answer.close()
    kept = tuple((name, value) for name, value in answer.headers.items() if name not in NOT_OURS)
    return Fixed(answer.status_code, kept, raw)


def first_answers(root: Path, times: int) -> list[float]:
    """Seconds from the start of a process to the end of its first answer, each time another process."""
    request = posted(body(sized(root / "first", SIZES[0]), "first"), "connection: close")
    return [first_answer(root, request) for _ in range(times)]


def first_answer(root: Path, request: bytes, settings: Mapping[str, str] | None = None) -> float:
    command = [sys.executable, *SERVE, "--root", str(root)]
    began = time.perf_counter()
    with pinned(SERVER_CORE):
        process = subprocess.Popen(
            command, env=environment_of(root, settings), cwd=ROOT, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
    with process:
        try:
            answer = exchanged(port_of(process), request)
            ended = time.perf_counter() - began
        finally:
            process.terminate()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise NotStartedError(answer[:500].decode("latin-1"))
    return ended


def port_of(process: subprocess.Popen[bytes]) -> int:
    line = process.stderr.readline() if process.stderr else b""
    found = re.search(rb"http://127\.0\.0\.1:(\d+)", line)
    if found is None:
        raise NotStartedError(line.decode(errors="replace"))
    return int(found[1])


def exchanged(port: int, request: bytes) -> bytes:
    """One request and all that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        one.sendall(request)
        parts = []
        while part := one.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)
