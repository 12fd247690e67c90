"""Who calls: keys, what each of them may read and how much it may ask. Their file is read again when it changes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core.keys import digest_in, hashed
from app.core.pace import Meter, Rate
from app.keys_file import Key, KeysFile
from app.workspaces.fence import Fence

LOOK_SECONDS = 1.0
"""Between looks at the file of keys; it is read once two looks have found it the same."""

_SHOWN = 8

NO_ROOT = "The root of this number of the key is no folder: nothing is read from it."

FenceAround = Callable[[Iterable[str]], Fence]


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

    @property
    def tenant(self) -> str:
        """Whose key it is, whatever its roots; empty where callers are not told apart."""
        return self.space.partition("/")[0]


ANYONE = Caller()
"""Who calls where no key is asked for."""

CALLER = "caller"
"""Where a request's caller stands, in the scope's state."""


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Who sent the request."""
    caller: Caller = scope.get("state", {}).get(CALLER, ANYONE)
    return caller


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
        self._warn()

    @property
    def ring(self) -> Keyring:
        """Another object once the keys have changed."""
        return self._ring

    async def watch(self) -> None:
        """Looks at the file every `LOOK_SECONDS`, on a thread of its own, without end."""
        with ThreadPoolExecutor(1, "strata-keys") as own:
            while self._file is not None:
                await asyncio.sleep(LOOK_SECONDS)
                await asyncio.get_running_loop().run_in_executor(own, self.look)

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
            self._warn()

    def _warn(self) -> None:
        """Of what can be read, and is hardly meant."""
        if self._ring.asks and not self._ring.callers:
            self._tell("warning", "no_keys", {"message": "The file of keys lists none: nobody is let in."})
        for key in self._file.keys if self._file is not None else ():
            for number, root in enumerate(key.roots or (), start=1):
                if not Path(root).is_dir():
                    self._tell("warning", "key_root_missing", {"key": key.name, "number": number, "message": NO_ROOT})

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
