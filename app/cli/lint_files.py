"""Requests read from files in any usual shape, each with the place it has in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import typer

from app.cli.asking import INVALID, failed
from app.cli.telling import printable
from app.errors import Problem
from app.wire.lints import MOST_REQUESTS, SentRequest
from app.wire.parsing import parsed

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Row:
    """``value`` is what stands in ``file``; ``line`` and ``place`` count from 1. None: the file holds nothing else."""

    value: Any
    file: str
    line: int | None = None
    place: int | None = None

    @property
    def where(self) -> str:
        line = f", line {self.line}" if self.line else ""
        place = f", request {self.place}" if self.place else ""
        return f"{self.file}{line}{place}"


def read_rows(files: Sequence[Path]) -> list[Row]:
    """What ``files`` hold, in their order; a file or a line of one that cannot be read ends the command."""
    rows = [row for file in files for one in _documents(file) for row in _rows(one)]
    if not rows:
        raise failed("there is no request in these files", INVALID)
    if len(rows) > MOST_REQUESTS:
        raise failed(f"these are {len(rows)} requests: give {MOST_REQUESTS} or fewer at once", INVALID)
    return rows


def sent_requests(rows: Iterable[Row]) -> list[SentRequest]:
    """One for each row; a row that is none ends the command."""
    return [_sent(row) for row in rows]


def _documents(file: Path) -> list[Row]:
    try:
        data = file.read_bytes().removeprefix(BYTE_ORDER_MARK)
    except OSError as error:
        raise failed(printable(f"{file} cannot be read: {error.strerror}"), INVALID) from error
    try:
        return [Row(orjson.loads(data), str(file))]
    except orjson.JSONDecodeError as error:
        lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
        if len(lines) > 1 and _is_json(lines[0][1]):
            return [_line(file, number, line) for number, line in lines]
        raise failed(printable(f"{file} is not JSON: {error}"), INVALID) from error


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _line(file: Path, number: int, line: bytes) -> Row:
    try:
        return Row(orjson.loads(line), str(file), number)
    except orjson.JSONDecodeError as error:
        said = str(error).replace("line 1 column", "column")
        raise failed(printable(f"{file}, line {number} is not JSON: {said}"), INVALID) from error


def _rows(document: Row) -> Iterator[Row]:
    value = document.value
    if isinstance(value, dict) and "requests" in value and "messages" not in value:
        value = _requests(document)
    if not isinstance(value, list):
        yield document
        return
    for place, one in enumerate(value, 1):
        yield replace(document, value=one, place=place if len(value) > 1 else None)


def _requests(document: Row) -> list[Any]:
    requests = document.value["requests"]
    if not isinstance(requests, list):
        raise _refused(document, "/requests", "it must be a list")
    for name in sorted(document.value.keys() - {"requests"}):
        raise _refused(document, f"/{name}", "there is no such field: check its spelling, or remove it")
    return requests


def _sent(row: Row) -> SentRequest:
    """A row without ``body`` is one."""
    value = row.value
    if not isinstance(value, dict):
        raise _refused(row, "", "it must be a request, a JSON object")
    named = "body" in value
    written = _written(row, _with_usage(value) if named else {"body": value})
    try:
        return parsed(SentRequest, written)
    except Problem as problem:
        first = problem.errors[0] if problem.errors else {"pointer": "", "message": problem.detail}
        pointer = first["pointer"] if named else first["pointer"].removeprefix("/body")
        raise _refused(row, pointer, first["message"]) from problem


def _with_usage(value: Mapping[str, Any]) -> dict[str, Any]:
    """``usage`` may be the whole response."""
    match value:
        case {"usage": {"usage": usage}}:
            return {**value, "usage": usage}
    return dict(value)


def _written(row: Row, value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise _refused(row, "", f"it cannot be written as JSON: {error}") from error


def _refused(row: Row, pointer: str, message: str) -> typer.Exit:
    return failed(printable(f"{row.where}: {pointer + ': ' if pointer else ''}{message}"), INVALID)
