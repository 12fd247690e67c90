"""A repository's objects, asked of one lasting git process."""

from __future__ import annotations

import os
import selectors
import stat
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from app.errors import GitUnavailable
from app.workspaces.collecting import stop
from app.workspaces.git_folder import GitFolder
from app.workspaces.program import GitProgram, Query

_CHUNK_BYTES = 65_536
_BATCH: Query = ("cat-file", "--batch-command")


@dataclass(frozen=True, slots=True)
class Described:
    """An object's id (hexadecimal), type and size in bytes."""

    id: str
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name of a tree: the file type bits of its mode, and the id of what it names."""

    type: int
    id: str


def parse_tree(data: bytes, id_bytes: int) -> Mapping[str, TreeEntry]:
    r"""The names of a tree object: ``<mode> <name>\0<id>`` each.

    Names that UTF-8 cannot hold or that no folder can have are left out; of two equal ones the first counts.
    """
    entries: dict[str, TreeEntry] = {}
    start = 0
    while (space := data.find(b" ", start)) > 0 and (end := data.find(b"\0", space)) > 0:
        name = data[space + 1 : end]
        with suppress(ValueError):
            entry = TreeEntry(stat.S_IFMT(int(data[start:space], 8)), data[end + 1 : end + 1 + id_bytes].hex())
            if name not in (b"", b".", b"..") and b"/" not in name:
                entries.setdefault(name.decode(), entry)
        start = end + 1 + id_bytes
    return entries


def _descriptor(pipe: IO[bytes] | None) -> int:
    return -1 if pipe is None else pipe.fileno()


class Objects:
    """Objects by id. May be used from several threads; one question at a time.

    Raises GitUnavailable when git cannot be started, ends, or does not answer in time.
    """

    def __init__(self, folder: GitFolder, program: GitProgram) -> None:
        self._folder = folder
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = bytearray()
        self._lock = threading.Lock()

    def describe(self, name: str) -> Described | None:
        """What ``name`` is; None when the repository does not have it."""
        with self._lock:
            return self._ask("info", name)

    def contents(self, name: str) -> bytes | None:
        """An object's bytes, all in memory: describe it first."""
        with self._lock:
            described = self._ask("contents", name)
            return None if described is None else self._take(described.size + 1)[:-1]

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, command: str, name: str) -> Described | None:
        if self._process is None:
            self._process = self._program.start(self._folder, _BATCH, stdin=subprocess.PIPE)
        try:
            os.write(_descriptor(self._process.stdin), f"{command} {name}\n".encode())
        except OSError as error:
            raise self._lost("git ended before its time") from error
        fields = self._line().split(" ")
        if len(fields) != 3:  # noqa: PLR2004 - "ID TYPE SIZE", else "NAME missing"
            return None
        return Described(fields[0], fields[1], int(fields[2]))

    def _line(self) -> str:
        while (end := self._unread.find(b"\n")) < 0:
            self._fill()
        return self._take(end + 1)[:-1].decode()

    def _take(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._fill()
        taken = bytes(self._unread[:size])
        del self._unread[:size]
        return taken

    def _fill(self) -> None:
        if self._process is None:
            raise self._lost("git is not running")
        descriptor = _descriptor(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            if not selector.select(self._program.timeout_seconds):
                raise self._lost(f"git did not answer within {self._program.timeout_seconds:g} seconds")
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            raise self._lost("git ended before its time")
        self._unread += chunk

    def _lost(self, reason: str) -> GitUnavailable:
        self._end()
        return GitUnavailable(f"The repository could not be read: {reason}. Try again later.")

    def _end(self) -> None:
        if self._process is not None:
            stop(self._process)
        self._process = None
        self._unread.clear()
