"""A program that Linux itself keeps from files outside: it is started by a thread that gave up the right to them."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_ASKED = 1
_BELOW_A_PATH = 1
_NO_NEW_RIGHTS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = (1 << bit for bit in range(4))
_ALL = (1 << 13) - 1
_TRUNCATE = 1 << 14
_KNOWS_TRUNCATE = 3
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_FOLDER
_RUN = _READ | _EXECUTE
_WRITE = (_ALL | _TRUNCATE) & ~_EXECUTE
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
_OPEN = "/proc/self/fd"
_LISTED = "/proc"  # a program that is started closes what it finds open
_PLACE = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)
_TRIAL_SECONDS = 5.0

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Confinement:
    """``executable`` is a real path. ``version``: that of what the system offers."""

    executable: str
    version: int

    def started(
        self, start: Callable[[], Process], readable: Sequence[int], beside: Sequence[str], own: str
    ) -> Process:
        """What ``start`` starts.

        It reads only below the open folders ``readable``, the real paths ``beside`` and the system's programs, and
        writes only below ``own``. Raises OSError.
        """
        try:
            with ThreadPoolExecutor(1) as fresh:  # a thread that has given up rights does nothing else afterwards
                return fresh.submit(self._started, start, readable, beside, own).result()
        except RuntimeError as error:
            raise BlockingIOError("no thread can be started") from error

    def _started(
        self, start: Callable[[], Process], readable: Sequence[int], beside: Sequence[str], own: str
    ) -> Process:
        with self._rules() as rules, ExitStack() as opened:
            for descriptor in readable:
                self._allow(rules, descriptor, _READ)
            for path, rights in self._places(own):
                with suppress(FileNotFoundError, NotADirectoryError):
                    self._allow(rules, opened.enter_context(_open(path)), rights)
            for path in beside:
                with suppress(FileNotFoundError, NotADirectoryError):
                    descriptor = opened.enter_context(_open(path))
                    if os.readlink(f"{_OPEN}/{descriptor}") == path:  # noqa: PTH115 - no link took its place meanwhile
                        self._allow(rules, descriptor, _READ)
            _called(ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0))
            _system(_RESTRICT, rules, 0)
        return start()

    def _places(self, own: str) -> Iterator[tuple[str, int]]:
        yield from ((path, _RUN) for path in (*_SYSTEM, self.executable))
        yield from ((own, _WRITE), (os.devnull, _READ | _WRITE_FILE), (_LISTED, _READ_FOLDER))

    @contextmanager
    def _rules(self) -> Iterator[int]:
        rules = _system(_CREATE, struct.pack("=Q", self._handled), 8, 0)
        try:
            yield rules
        finally:
            os.close(rules)

    @property
    def _handled(self) -> int:
        return _ALL | (_TRUNCATE if self.version >= _KNOWS_TRUNCATE else 0)

    def _allow(self, rules: int, descriptor: int, rights: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        allowed = rights & self._handled & (-1 if is_folder else _OF_FILES)
        _system(_ADD, rules, _BELOW_A_PATH, struct.pack("=Qi", allowed, descriptor), 0)


def confinement_of(executable: str) -> Confinement | None:
    """How to confine a program that is looked for in PATH; None where the system does not offer it, or not to it."""
    place = shutil.which(executable)
    if place is None or sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return None
    try:
        found = Confinement(os.path.realpath(place), _system(_CREATE, None, 0, _VERSION_ASKED))
        return found if _is_run(found) else None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _is_run(confinement: Confinement) -> bool:
    command = [confinement.executable, "--version"]
    with tempfile.TemporaryDirectory() as own:

        def begun() -> Process:
            nothing = subprocess.DEVNULL
            return subprocess.Popen(command, cwd=own, stdin=nothing, stdout=nothing, stderr=nothing)

        with confinement.started(begun, (), (), own) as process:
            try:
                return process.wait(_TRIAL_SECONDS) == 0
            finally:
                process.kill()


@contextmanager
def _open(path: str) -> Iterator[int]:
    descriptor = os.open(path, _PLACE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _system(number: int, *arguments: int | bytes | None) -> int:
    return _called(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def _called(answer: int) -> int:
    """Raises OSError."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
