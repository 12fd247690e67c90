"""YAML mappings as people write them: strict where YAML can read them, line by line or key by key where it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

LONGEST = 64 * 1024
"""Text beyond this many characters is not parsed: YAML's cost is not linear."""

MOST_LINES, MOST_ENTRIES = 4_000, 500
"""Lines that are mended, and keys that are read one by one, when it cannot be read as a whole."""

FIRST_LINE = 2
"""The line of the file on which what is between the fences begins."""

_PAIR = re.compile(
    r"(?P<lead>\s*(?:-\s+)?)(?P<key>[A-Za-z_][\w-]*|\"[\w-]+\"|'[\w-]+')[ \t]*:(?:[ \t]+(?P<value>.*))?$"
)
_ODD_PAIR = re.compile(
    r"(?P<lead>)(?P<key>\"[^\"]*\"|'[^']*'|[^\s:\-#\"'\[\]{},&*!|>%@`?][^:]*+(?::(?=[^ \t])[^:]*+)*+)"
    r"[ \t]*+:(?:[ \t]+(?P<value>.*))?$"
)
"""At the start of a line, a key of any text up to the first colon that ends one."""

_ITEM = re.compile(r"(?P<lead>\s*-[ \t]+)(?P<value>.*)$")
_ENTRY = re.compile(r"(?P<lead>\s*)(?P<value>[^\s\[\]{}#].*?)(?P<tail>,?)$")
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#.*$")
_OPENS_BLOCK = re.compile(r"[:-][ \t]+[|>][+-]?\d?[+-]?$")
_NEEDS_QUOTES = re.compile(r"[{}\[\]*&#!|>%@`]|: ")
_BLOCK_SCALAR = re.compile(r"[|>][+-]?\d?[+-]?$")


class _AliasRefusedError(yaml.YAMLError):
    """A few aliases can expand to billions of values."""


class _Loader(yaml.CSafeLoader):
    """Scalars of YAML 1.2's core schema: no dates, no sexagesimals, no yes/no. No other tag makes a value."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.CSafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in {"null", "bool", "int", "float", "str", "seq", "map"}
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?\d+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$"), list("-+.0123456789")
)


@dataclass(frozen=True, slots=True)
class Unread:
    """The line of the file, from 1, at which YAML gives up, and the key that is lost by it; None: it has none."""

    line: int
    key: str | None


def parse_yaml(text: str) -> Mapping[str, Any] | None:
    """The top-level mapping of ``text``; empty when it holds none; None when it cannot be read at all.

    What YAML refuses is read again with the lines it cannot read alone in quotes, then with every suspicious one.
    """
    found = _read(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    return {str(key): value for key, value in found[0].items()} if isinstance(found[0], dict) else {}


def parsed_by_key(lines: list[str]) -> tuple[Mapping[str, Any], tuple[Unread, ...]]:
    """What can be read of a mapping key by key, and the places that cannot; nothing of one that is too long."""
    values: dict[str, Any] = {}
    unread: list[Unread] = []
    fits = len(lines) <= MOST_LINES and sum(map(len, lines)) <= LONGEST
    entries = list(_entries(lines)) if fits else []
    for key, first, entry in entries if len(entries) <= MOST_ENTRIES else ():
        text = "".join(f"{line}\n" for line in entry)
        found = _read(text)
        if found is not None and isinstance(found[0], dict | None):
            values |= {str(name): value for name, value in (found[0] or {}).items()}
        else:
            line = min(_fault_line(text), len(entry) - 1)
            unread.append(Unread(FIRST_LINE + first + line, key))
    return values, tuple(unread)


def _entries(lines: list[str]) -> Iterator[tuple[str | None, int, list[str]]]:
    """Each key at the start of a line, the index of that line, and all lines to the next one.

    A line that is no part of a key's value stands alone, without a key.
    """
    key, first, entry, opened = None, 0, list[str](), False
    for at, written in enumerate(lines):
        line = written.rstrip(" \t\r\n")
        name = _key(line)
        if name is None and (_goes_on(key, entry[-1], line, opened=opened) if entry else not line):
            entry += [line] if entry else []
            continue
        if entry:
            yield key, first, entry
        key, first, entry, opened = name, at, [line], _opens(line)
    yield key, first, entry


def opens_pair(line: str) -> bool:
    """Whether ``line`` is a plain key, in a list or not, with or without a value."""
    return _PAIR.match(line) is not None


def _key(line: str) -> str | None:
    found = _PAIR.match(line) or _ODD_PAIR.match(line)
    return found["key"].rstrip().strip("\"'") if found and not found["lead"] else None


def _opens(line: str) -> bool:
    """Whether a list or a mapping begins in ``line`` and does not end there."""
    return sum(map(line.count, "[{")) > sum(map(line.count, "]}"))


def _goes_on(key: str | None, last: str, line: str, *, opened: bool) -> bool:
    """Whether ``line``, which has no key, belongs to the value that goes as far as ``last``.

    ``opened``: a list or a mapping began where the key stands.
    """
    if not line or line[0] in " \t#":
        return True
    return key is not None and ((opened and last[:1] not in {"]", "}"}) or line.startswith("- ") or line == "-")


def _fault_line(text: str) -> int:
    """The line, from 0, at which YAML gives up on ``text``; 0 where it does not say."""
    try:
        list(yaml.parse(_repaired(text, eager=True), Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        return error.problem_mark.line if error.problem_mark else 0
    except (yaml.YAMLError, ValueError):
        pass
    return 0


def _read(text: str) -> tuple[Any] | None:
    """The document as it is, else with the lines mended that YAML cannot read, else with all that look odd."""
    found = _load(text)
    if found or text.count("\n") > MOST_LINES:
        return found
    return _load(_repaired(text, eager=False)) or _load(_repaired(text, eager=True))


def _load(text: str) -> tuple[Any] | None:
    try:
        if "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader)):
            raise _AliasRefusedError(text)
        return (yaml.load(text, Loader=_Loader),)  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, ValueError, LookupError, RecursionError):
        return None


def _repaired(text: str, *, eager: bool) -> str:
    """The text with tabs out of the way and each value that YAML would trip over in quotes; block scalars stay."""
    lines: list[str] = []
    block: int | None = None
    for written in text.splitlines():
        start = len(written) - len(written.lstrip())
        line = (written[:start].replace("\t", "  ") + written[start:]).rstrip()
        indent = len(line) - len(line.lstrip())
        if line and (block is None or indent <= block):
            block = indent if _OPENS_BLOCK.search(line) else None
            line = _repaired_line(line, eager=eager)
        lines.append(line)
    return "\n".join(lines)


def _repaired_line(line: str, *, eager: bool) -> str:
    pair = _PAIR.match(line)
    odd = None if pair else _ODD_PAIR.match(line)
    if found := pair or odd:
        key, value = _quoted_item(found["key"].rstrip()) if odd else found["key"], found["value"]
        return f"{found['lead']}{key}: {_quoted(value, eager=eager)}" if value else f"{found['lead']}{key}:"
    item = _ITEM.match(line)
    if item:
        return f"{item['lead'].rstrip()} {_quoted(item['value'], eager=eager)}"
    entry = _ENTRY.match(line)
    return f"{entry['lead']}{_quoted(entry['value'], eager=eager)}{entry['tail']}" if entry else line


def _quoted(value: str, *, eager: bool) -> str:
    if not value or value in {"[", "{"} or _BLOCK_SCALAR.match(value) or _is_quoted(value):
        return value
    if not (eager and _NEEDS_QUOTES.search(value)) and _load(f"value: {value}"):
        return value
    value = _COMMENT.sub("", value).rstrip()
    if value.startswith("[") and value.endswith("]"):
        return "[" + ", ".join(_quoted_item(item.strip()) for item in split_commas(value[1:-1]) if item.strip()) + "]"
    return _quoted_item(value)


def _is_quoted(value: str) -> bool:
    return value[:1] in {'"', "'"} and _load(f"value: {value}") is not None


def _quoted_item(value: str) -> str:
    if not value or _is_quoted(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def split_commas(text: str) -> list[str]:
    """``text`` cut at commas and line ends that stand outside braces."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character == "{":
            depth += 1
        elif character == "}":
            depth = max(0, depth - 1)
        elif character in ",\n" and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
