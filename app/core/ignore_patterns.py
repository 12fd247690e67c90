"""Lines of ignore files as git reads them: bytes in, a regular expression for RE2 out."""

from __future__ import annotations

import re
from dataclasses import dataclass

import re2

FOLDER = b"d:"
FILE = b"f:"
"""What stands before a path that is matched. A link is a file, whatever it leads to."""

_LITERAL = re.compile(rb"[^*?\[\\]*")
_ANY_BYTE = frozenset(range(1, 256))
_SLASH = ord("/")
_NOWHERE = -1


def _ascii(characters: str) -> frozenset[int]:
    return frozenset(code for code in range(1, 128) if re.fullmatch(characters, chr(code)))


_CLASSES = {
    b"alnum": _ascii("[A-Za-z0-9]"),
    b"alpha": _ascii("[A-Za-z]"),
    b"blank": _ascii(r"[ \t]"),
    b"cntrl": _ascii(r"[\x01-\x1f\x7f]"),
    b"digit": _ascii("[0-9]"),
    b"graph": _ascii("[!-~]"),
    b"lower": _ascii("[a-z]"),
    b"print": _ascii("[ -~]"),
    b"punct": _ascii(r"[!-/:-@\[-`{-~]"),
    b"space": _ascii(r"[ \t\n\r]"),
    b"upper": _ascii("[A-Z]"),
    b"xdigit": _ascii("[A-Fa-f0-9]"),
}


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line. ``regex`` fits FOLDER or FILE and a path whole; ``ignored`` is False for a negated line."""

    regex: bytes
    ignored: bool


def ignore_rules(data: bytes) -> tuple[IgnoreRule, ...]:
    """The lines of an ignore file that can match something, in order."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = (_rule(line) for line in lines if line[:1] not in (b"", b"#"))
    return tuple(rule for rule in found if rule is not None)


def _rule(line: bytes) -> IgnoreRule | None:
    pattern = _trimmed(line.removesuffix(b"\r").split(b"\0", 1)[0])
    bare = pattern.removeprefix(b"!")
    path = bare.removesuffix(b"/")
    is_path = b"/" in path
    regex = _translated(path.removeprefix(b"/"), is_path=is_path)
    if not path or regex is None:
        return None
    start = FOLDER if bare != path else b"[df]:"
    return IgnoreRule(start + (b"" if is_path else b"(?:.*/)?") + regex, ignored=bare == pattern)


def _trimmed(line: bytes) -> bytes:
    """Without the spaces at its end, but for one behind a backslash."""
    bare = line.rstrip(b" ")
    backslashes = len(bare) - len(bare.rstrip(b"\\"))
    return line[: len(bare) + 1] if backslashes % 2 else bare


def _translated(pattern: bytes, *, is_path: bool) -> bytes | None:
    """The regular expression, or None when no path can fit."""
    at = _literal_end(pattern)
    opening = at if is_path else _NOWHERE
    parts = [re2.escape(pattern[:at])]
    while at < len(pattern):
        piece, at = _piece(pattern, at, opening)
        if piece is None:
            return None
        parts.append(piece)
        literal = _literal_end(pattern, at)
        parts.append(re2.escape(pattern[at:literal]))
        at = literal
    return b"".join(parts)


def _literal_end(pattern: bytes, at: int = 0) -> int:
    found = _LITERAL.match(pattern, at)
    return found.end() if found else at


def _piece(pattern: bytes, at: int, opening: int) -> tuple[bytes | None, int]:
    """What the special byte at ``at`` means, and where the rest begins. ``opening`` is where the first one stands."""
    match pattern[at : at + 1]:
        case b"*":
            return _stars(pattern, at, opening)
        case b"?":
            return b"[^/]", at + 1
        case b"[":
            return _bracket(pattern, at + 1)
        case _:
            escaped = pattern[at + 1 : at + 2]
            return (re2.escape(escaped) if escaped else None), at + 2


def _stars(pattern: bytes, at: int, opening: int) -> tuple[bytes, int]:
    end = at + len(pattern[at:]) - len(pattern[at:].lstrip(b"*"))
    # git compares what stands before the first special byte apart, so that `a**/b` reaches across folders.
    bounded = at == opening or pattern[at - 1 : at] == b"/"
    if end == at + 1 or not bounded:
        return b"[^/]*", end
    if pattern[end : end + 1] == b"/":
        return b"(?:.*/)?", end + 1
    return (b".*" if pattern[end : end + 2] in (b"", b"\\/") else b"[^/]*"), end


def _bracket(pattern: bytes, at: int) -> tuple[bytes | None, int]:
    negated = pattern[at : at + 1] in (b"!", b"^")
    reader = _BracketReader(pattern, at + negated)
    members = reader.members()
    if members is None:
        return None, len(pattern)
    allowed = (_ANY_BYTE - members if negated else members) - {_SLASH}
    return _set(allowed) if allowed else None, reader.at


def _set(codes: frozenset[int]) -> bytes:
    first = (code for code in sorted(codes) if code - 1 not in codes)
    last = (code for code in sorted(codes) if code + 1 not in codes)
    return b"[%s]" % b"".join(b"\\x%02x-\\x%02x" % ends for ends in zip(first, last, strict=True))


class _BracketReader:
    """The bytes between brackets, by the rules that git goes by; ``at`` is where the rest begins."""

    def __init__(self, pattern: bytes, at: int) -> None:
        self.pattern = pattern
        self.at = at

    def members(self) -> frozenset[int] | None:
        """The bytes that the brackets hold; None when they do not close or name an unknown class."""
        found: set[int] = set()
        before: int | None = None
        first = True
        while first or self._peek() != b"]":
            first = False
            named = self._class()
            if named is not None:
                before = None
                if named not in _CLASSES:
                    return None
                found |= _CLASSES[named]
                continue
            is_range = self._peek() == b"-" and before is not None and self._peek(1) not in (b"", b"]")
            self.at += is_range
            code = self._code()
            if code is None:
                return None
            found.update(range(before, code + 1) if is_range and before is not None else (code,))
            before = None if is_range else code
        self.at += 1
        return frozenset(found)

    def _peek(self, ahead: int = 0) -> bytes:
        return self.pattern[self.at + ahead : self.at + ahead + 1]

    def _code(self) -> int | None:
        self.at += self._peek() == b"\\"
        byte = self._peek()
        self.at += 1
        return byte[0] if byte else None

    def _class(self) -> bytes | None:
        """The name in ``[:name:]``, which may be unknown; None where no such thing stands."""
        if self._peek() + self._peek(1) != b"[:":
            return None
        end = self.pattern.find(b"]", self.at + 2)
        if end < self.at + 3 or self.pattern[end - 1 : end] != b":":
            return None
        name = self.pattern[self.at + 2 : end - 1]
        self.at = end + 1
        return name
