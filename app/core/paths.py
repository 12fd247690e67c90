"""Paths of two flavours, as text: POSIX and Windows, whatever this service runs on."""

from __future__ import annotations

import ntpath
import posixpath
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Paths:
    """Arithmetic on absolute paths of one flavour. Results are normalised; nothing is looked up."""

    windows: bool = False

    @property
    def _lib(self) -> ModuleType:
        return ntpath if self.windows else posixpath

    @property
    def separator(self) -> str:
        return "\\" if self.windows else "/"

    def is_absolute(self, path: str) -> bool:
        if not self.windows:
            return path.startswith("/")
        drive, rest = ntpath.splitdrive(path)
        return bool(drive) and rest[:1] in ("\\", "/")

    def normal(self, path: str) -> str:
        normal: str = self._lib.normpath(path)
        if self.windows:
            return normal[:1].upper() + normal[1:] if normal[1:2] == ":" else normal
        return "/" + normal.lstrip("/") if normal.startswith("//") else normal

    def join(self, base: str, *parts: str) -> str:
        """``parts`` put after ``base``, dots resolved; an absolute part starts again."""
        return self.normal(self._lib.join(base, *parts))

    def parent(self, path: str) -> str:
        parent: str = self._lib.dirname(path)
        return parent

    def name(self, path: str) -> str:
        name: str = self._lib.basename(path)
        return name

    def extension(self, path: str) -> str:
        """The lower-case ending with its dot; empty for names without one and for dot names such as ``.env``."""
        extension: str = self._lib.splitext(path)[1]
        return extension.lower()

    def is_root(self, path: str) -> bool:
        return self.parent(path) == path

    def chain(self, path: str) -> tuple[str, ...]:
        """The folders from the root's child down to ``path`` itself; the root is left out."""
        found: list[str] = []
        while not self.is_root(path):
            found.append(path)
            path = self.parent(path)
        return tuple(reversed(found))

    def within(self, path: str, folder: str) -> bool:
        """Whether ``path`` is ``folder`` or lies below it."""
        if path == folder:
            return True
        base = folder if folder.endswith(self.separator) else folder + self.separator
        return path.startswith(base)

    def relative(self, path: str, folder: str) -> str | None:
        """``path`` as seen from ``folder``, with ``/`` separators; None when it lies outside or is the folder."""
        if path == folder or not self.within(path, folder):
            return None
        return self.slashed(path[len(folder) :]).lstrip("/")

    def relative_from(self, path: str, folder: str) -> str:
        """``path`` written relative to ``folder``, with ``..`` where needed."""
        relative: str = self._lib.relpath(path, folder)
        return relative

    def slashed(self, path: str) -> str:
        return path.replace("\\", "/") if self.windows else path


def paths_for(cwd: str) -> Paths:
    """The flavour of an absolute path: a drive letter or a UNC prefix makes it Windows."""
    drive = ntpath.splitdrive(cwd)[0]
    return Paths(windows=bool(drive) and not cwd.startswith("/"))
