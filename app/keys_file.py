"""The file of keys: what may stand there, and its keys as they were read last."""

from __future__ import annotations

import os
import stat
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

LONGEST_FILE = 1024 * 1024
"""Bytes of a file of keys."""

NAME = "^[a-z0-9][a-z0-9._-]{0,63}$"
_SHOWN = 8


class KeysFileError(ValueError):
    """The file of keys cannot be read, or says something else than keys."""


class Key(BaseModel):
    """A row ``[[keys]]`` of the file. ``sha256`` is the key's, in hexadecimal; ``roots`` are real folders."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=NAME)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    tenant: Annotated[str, Field(pattern=NAME)] | None = None
    roots: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    burst: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    requests_at_once: Annotated[int, Field(ge=1)] | None = None
    event_streams: Annotated[int, Field(ge=0)] | None = None
    max_body_bytes: Annotated[int, Field(ge=1)] | None = None

    @field_validator("roots")
    @classmethod
    def _are_absolute(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and not all(Path(root).is_absolute() and "\0" not in root for root in value):
            raise ValueError("write absolute folders")
        return value


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    keys: list[Key] = []


def read_keys(text: str) -> tuple[Key, ...]:
    """The keys that a file in TOML names.

    Raises:
        KeysFileError: with a sentence that names the place.
    """
    try:
        keys = _File.model_validate(tomllib.loads(text)).keys
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise KeysFileError(f"it is not TOML: {error}") from error
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise KeysFileError(f"{place}: {fault['msg'].removeprefix('Value error, ')}") from error
    for told, values in (("name", [key.name for key in keys]), ("sha256", [key.sha256 for key in keys])):
        twice, times = next(iter(Counter(values).most_common(1)), ("", 0))
        if times > 1:
            raise KeysFileError(f"two keys have the {told} {twice[:_SHOWN]}{'…' if twice[_SHOWN:] else ''}")
    return tuple(keys)


class KeysFile:
    """The keys of a file that may change; while it cannot be read, those that were read last.

    It begins with ``kept``, which another process has read, and looks at the file later; None: it reads the file now.
    ``fault`` says why it could not be read; None: it could.

    Raises:
        KeysFileError: it cannot be read now.
    """

    def __init__(self, file: Path, kept: tuple[Key, ...] | None = None) -> None:
        self._file = file
        self._seen: object = self._stamp()
        self._tried: object = self._seen if kept is None else None
        self.keys = read_keys(_text(file)) if kept is None else kept
        self.fault: KeysFileError | None = None

    def look(self) -> bool:
        """Reads the file when it is another one, and was the same at the last look. Whether there is news."""
        before, self._seen = self._seen, self._stamp()
        same = self._seen == self._tried
        out_of_reach = isinstance(self.fault and self.fault.__cause__, OSError)  # the same file may be within it later
        if self._seen != before or (same and not out_of_reach):
            return False
        keys, fault = self._found()
        if self._stamp() != self._seen:
            return False
        news = not same or str(fault) != str(self.fault)
        self.keys, self.fault, self._tried = keys, fault, self._seen
        return news

    def _found(self) -> tuple[tuple[Key, ...], KeysFileError | None]:
        try:
            return read_keys(_text(self._file)), None
        except KeysFileError as error:
            return self.keys, error

    def _stamp(self) -> object:
        try:
            facts = self._file.stat()
        except OSError as error:
            return error.errno
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _text(file: Path) -> str:
    try:
        with open(file, "rb", opener=_opened) as opened:
            content = opened.read(LONGEST_FILE + 1) if stat.S_ISREG(os.fstat(opened.fileno()).st_mode) else None
        if content is None:
            raise KeysFileError("it is no file")
        if len(content) > LONGEST_FILE:
            raise KeysFileError(f"it is longer than {LONGEST_FILE:,} bytes")
        return content.decode()
    except OSError as error:
        raise KeysFileError(error.strerror or "it cannot be read") from error
    except UnicodeDecodeError as error:
        raise KeysFileError("it is not UTF-8") from error


def _opened(file: str, flags: int) -> int:
    """Without waiting for whoever may write to a pipe."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))
