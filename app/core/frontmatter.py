"""YAML frontmatter as people write it: strict where YAML can read it, line by line where it cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

LONGEST = 64 * 1024
"""Frontmatter beyond this many characters is not parsed: YAML's cost is not linear."""

MOST_LINES = 50
"""Lines of a file among which misplaced or unclosed frontmatter is looked for."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_NEWLINE = re.compile(r"\r\n|\r|\n")
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
_NOT_WHITE = re.compile(r"\S")
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
class Frontmatter:
    """``values`` is empty when there is none or it cannot be read; ``lines`` is how many lines were taken away.

    ``keyless``: what was taken away holds something, but no keys.
    """

    body: str
    values: Mapping[str, Any]
    lines: int = 0
    unreadable: bool = False
    keyless: bool = False
    displaced: bool = False
    unclosed: bool = False


def split_frontmatter(text: str) -> Frontmatter:
    """Takes the frontmatter and the white space after it from the front of ``text``."""
    lines = _LINE.findall(text)
    if not _is_fence(lines[0]):
        return Frontmatter(body=text, values={}, displaced=_is_displaced(lines))
    end = next((at for at in range(1, len(lines)) if _is_fence(lines[at])), None)
    if end is None:
        return Frontmatter(body=text, values={}, unclosed=_has_condition(lines[1:MOST_LINES]))
    block = "".join(lines[1:end])
    values = parse_yaml(block)
    body = "".join(lines[end + 1 :]).lstrip()
    return Frontmatter(
        body=body,
        values=values or {},
        lines=len(_NEWLINE.findall(text[: len(text) - len(body)])),
        unreadable=values is None,
        keyless=values == {} and bool(block.strip()),
    )


def parse_yaml(text: str) -> Mapping[str, Any] | None:
    """The top-level mapping of ``text``; empty when it holds none; None when it cannot be read at all.

    What YAML refuses is read again with the lines it cannot read alone in quotes, then with every suspicious one.
    """
    if len(text) > LONGEST:
        return None
    found = _load(text) or _load(_repaired(text, eager=False)) or _load(_repaired(text, eager=True))
    if found is None:
        return None
    return {str(key): value for key, value in found[0].items()} if isinstance(found[0], dict) else {}


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


def _is_fence(line: str) -> bool:
    return line.rstrip() == "---"


def _is_displaced(lines: list[str]) -> bool:
    """Whether frontmatter stands below the top: after blank lines or comments, or after text if it has ``paths``."""
    first = next((at for at, line in enumerate(lines) if _is_fence(line)), None)
    if first is None:
        return False
    end = next((at for at in range(first + 1, len(lines)) if _is_fence(lines[at])), None)
    block = [line for line in lines[first + 1 : end] if line.strip()]
    if end is None or not block or _PAIR.match(block[0].rstrip()) is None:
        return False
    before = lines[:first]
    in_text = first < MOST_LINES and not any(line.lstrip().startswith(("```", "~~~")) for line in before)
    return _is_preamble("".join(before)) or (in_text and _has_condition(block))


def _has_condition(lines: list[str]) -> bool:
    return any(line.startswith("paths:") for line in lines)


def _is_preamble(text: str) -> bool:
    """Whether ``text`` is blank but for comments."""
    at = _past_white_space(text, 0)
    while text.startswith("<!--", at):
        end = text.find("-->", at)
        if end < 0:
            return False
        at = _past_white_space(text, end + 3)
    return at == len(text)


def _past_white_space(text: str, at: int) -> int:
    found = _NOT_WHITE.search(text, at)
    return found.start() if found else len(text)
