"""Who calls: keys, what each of them may read and how much it may ask. Their file is read again when it changes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from app.core.keys import digest_in, hashed
from app.core.pace import Meter, Rate
from app.workspaces.fence import Fence

LOOK_SECONDS = 1.0
"""Between looks at the file of keys; it is read once two looks have found it the same."""

LONGEST_FILE = 1024 * 1024
"""Bytes of a file of keys."""

NAME = "^[a-z0-9][a-z0-9._-]{0,63}$"
_SHOWN = 8

FenceAround = Callable[[Iterable[str]], Fence]


class KeysFileError(ValueError):
    """The file of keys cannot be read, or says something else than keys."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request. ``name`` is its key's, empty where none is asked for.

    ``space`` keeps its tenant's sessions and texts apart from those of others. ``fence`` None: the service's own;
    ``rate``, ``at_once``, ``streams`` and ``max_body_bytes`` None: no limit but the service's.
    """

    name: str = ""
    space: str = ""
    fence: Fence | None = None
    rate: Rate | None = None
    at_once: int | None = None
    streams: int | None = None
    max_body_bytes: int | None = None


ANYONE = Caller()
"""Who calls where no key is asked for."""

CALLER = "caller"
"""Where a request's caller stands, in the scope's state."""


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Who sent the request."""
    caller: Caller = scope.get("state", {}).get(CALLER, ANYONE)
    return caller


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


@dataclass(frozen=True, slots=True)
class Keyring:
    """Callers by the SHA-256 of their keys. ``asks`` False: nobody needs a key."""

    callers: Mapping[bytes, Caller]
    asks: bool

    def caller(self, key: bytes) -> Caller | None:
        """Compared with every key that there is, so that the time it takes tells nothing."""
        given, found = hashlib.sha256(key).digest(), None
        for known, caller in self.callers.items():
            if hmac.compare_digest(given, known):
                found = caller
        return found


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


class Keys:
    """The keys of the settings, which are hashed, and those of ``file``, which may change.

    ``tell`` takes a level, an event and its values. ``kept`` is as for `KeysFile`, which may raise KeysFileError.
    """

    def __init__(
        self,
        given: Iterable[str],
        file: Path | None,
        fence_around: FenceAround,
        tell: Callable[[Any, str, Mapping[str, Any]], object],
        kept: tuple[Key, ...] | None = None,
    ) -> None:
        self._given = {digest_in(key): _named_by_hash(digest_in(key)) for key in map(hashed, given)}
        self._fence_around, self._tell, self.failures = fence_around, tell, 0
        self._file = None if file is None else KeysFile(file, kept)
        self._ring = self._new_ring()
        if self._ring.asks and not self._ring.callers:
            tell("warning", "no_keys", {"message": "The file of keys lists none: nobody is let in."})

    @property
    def ring(self) -> Keyring:
        """Another object once the keys have changed."""
        return self._ring

    async def watch(self) -> None:
        """Looks at the file every `LOOK_SECONDS`, on a thread, without end."""
        while self._file is not None:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """As `KeysFile.look`; what is new is told."""
        if self._file is None or not self._file.look():
            return
        if self._file.fault is not None:
            self.failures += 1
            self._tell("error", "keys_not_read", {"reason": str(self._file.fault)})
        elif (ring := self._new_ring()) != self._ring:
            self._ring = ring
            self._tell("info", "keys_read", {"keys": len(ring.callers)})

    def _new_ring(self) -> Keyring:
        callers = dict(self._given)
        if self._file is not None:
            callers.update((bytes.fromhex(key.sha256), self._caller(key)) for key in self._file.keys)
        return Keyring(callers, asks=self._file is not None or bool(callers))

    def _caller(self, key: Key) -> Caller:
        tenant = key.tenant or key.name
        fence = None if key.roots is None else self._fence_around(key.roots)
        rate = key.requests_per_minute
        return Caller(
            name=key.name,
            space=tenant if fence is None else f"{tenant}/{_digest(fence)}",
            fence=fence,
            rate=None if rate is None else Rate(rate, key.burst or rate),
            at_once=key.requests_at_once,
            streams=key.event_streams,
            max_body_bytes=key.max_body_bytes,
        )


def _named_by_hash(digest: bytes) -> Caller:
    """A key of the settings is a tenant of its own."""
    name = f"key-{digest[:_SHOWN].hex()}"
    return Caller(name=name, space=name)


def _digest(fence: Fence) -> str:
    return hashlib.sha256("\0".join(sorted(fence.roots)).encode("utf-8", "surrogateescape")).hexdigest()[: 2 * _SHOWN]


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


class Meters:
    """What each key has asked, in this process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._meters: dict[str, Meter] = {}

    def of(self, caller: Caller) -> Meter:
        return self._meters.setdefault(caller.name, Meter())

    def wait(self, caller: Caller) -> float:
        """Seconds after which the caller may ask; 0: now, and it counts."""
        return 0.0 if caller.rate is None else self.of(caller).take(caller.rate, self._clock())

    def keep(self, ring: Keyring) -> None:
        """Forgets keys that are gone and have nothing under way."""
        names = {caller.name for caller in ring.callers.values()}
        self._meters = {
            name: meter for name, meter in self._meters.items() if name in names or meter.under_way or meter.streams
        }
