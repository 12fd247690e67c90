"""Targets for what people write into files: frontmatter, Markdown, patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml
from markdown_it.token import Token

from app.core.frontmatter import Frontmatter, split_frontmatter
from app.core.globs import LONGEST, MOST_SETS, compiled, expanded
from app.core.lenient_yaml import parse_yaml, parsed_by_key
from app.core.markdown import MarkdownReader, Reading
from app.core.parsers import TakesTooLongError
from app.core.rules import condition, globs_from
from tests.fuzz import slow

READER = MarkdownReader()
PLAIN = (str, int, float, bool, type(None))
WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
CONSTANTS = {"null", "true", "false"}
LINE_END = re.compile(r"\r\n|\r|\n")
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def frontmatter(data: bytes) -> None:
    text = text_of(data)
    found = split_frontmatter(text)
    assert text.endswith(found.body)
    front = text[: len(text) - len(found.body)]
    assert found.lines == len(LINE_END.findall(front))
    assert all(isinstance(key, str) for key in found.values)
    assert _is_plain(dict(found.values)), found.values
    if front:
        _has_fences(front, found)
    else:
        assert found == Frontmatter(text, {}, displaced=found.displaced, unclosed=found.unclosed)
    assert all(isinstance(glob, str) and glob for glob in globs_from(found.values.get("paths")))


def _is_plain(value: Any) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
        elif not isinstance(one, PLAIN):
            return False
    return True


def _has_fences(front: str, found: Frontmatter) -> None:
    lines = LINE.findall(front)
    fences = [at for at, line in enumerate(lines) if line.rstrip() == "---"]
    assert fences[0] == 0
    assert not "".join(lines[fences[1] + 1 :]).strip()
    block = "".join(lines[1 : fences[1]])
    whole = parse_yaml(block)
    by_key = parsed_by_key(lines[1 : fences[1]]) if whole is None else (whole, ())
    assert (found.values, found.unread, found.unreadable) == (*by_key, whole is None)
    assert all(1 < one.line <= fences[1] for one in found.unread)
    _reads_as_plain_yaml(block, dict(found.values))


def _reads_as_plain_yaml(block: str, values: dict[str, Any]) -> None:
    """What any reader of YAML takes for a mapping of words to texts has those words here."""
    if re.search(r"[*&!]", block):
        return
    try:
        simple = yaml.load(block, Loader=yaml.CBaseLoader)  # noqa: S506 - it makes texts of everything
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    if isinstance(simple, dict) and all(WORD.fullmatch(key) and key.lower() not in CONSTANTS for key in simple):
        assert values.keys() == simple.keys(), (values, simple)
        assert all(value == simple[key] for key, value in values.items() if isinstance(value, str)), (values, simple)


def markdown(data: bytes) -> None:
    text = text_of(data)
    found = READER.read(text)
    assert slow.only_comments_went(text, found.text)
    assert found.text == text or "<!--" in text
    written = [line.replace("\0", "\ufffd") for line in LINE_END.split(text)]
    for mention in found.mentions:
        assert f"@{mention.path}" in written[mention.line - 1], mention
    for line, mark in ((found.open_comment_line, "<!--"), (found.open_fence_line, ("```", "~~~"))):
        assert line is None or _has_any(written[line - 1], mark)
    if found.unread_line is None:
        _reads_the_same_as_a_whole(text, found)


def _has_any(line: str, marks: str | tuple[str, ...]) -> bool:
    return any(mark in line for mark in ((marks,) if isinstance(marks, str) else marks))


def _reads_the_same_as_a_whole(text: str, found: Reading) -> None:
    """Sections that cannot hold anything to be told are left out; a whole text may take too long instead."""
    try:
        whole = WHOLE.read(text)
    except TakesTooLongError:
        return
    assert whole == found or whole.unread_line is not None


class WholeReader(MarkdownReader):
    """Parses every section, whether or not it can hold anything to be told."""

    def _blocks_in(self, lines: Sequence[str], env: dict[str, Any]) -> tuple[list[Token], None]:
        return self._blocks.parse("".join(lines), env), None


WHOLE = WholeReader()


def globs(data: bytes) -> None:
    """Patterns, an empty line, paths: one to a line."""
    above, _, below = data.decode("latin-1").partition("\n\n")
    patterns = [line for line in above.split("\n") if line][:8]
    paths = [path for line in below.split("\n")[:16] if (path := _relative(line))]
    rule = condition(tuple(patterns))
    met = [path for path in paths if rule.met_by(path)]
    if data.isascii() and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", data):
        readable = [one.lower() for one in patterns if one not in rule.invalid]
        ignored = [path for path in paths if slow.git_ignores(readable, path.lower())]
        negates = any(one.startswith("!") for one in readable)
        assert (set(met) <= set(ignored)) if negates else (met == ignored), (patterns, met, ignored)
        for one in rule.invalid:
            assert _is_beyond(one) or not any(slow.git_ignores([one.lower()], path.lower()) for path in paths), one


def _relative(line: str) -> str:
    return "/".join(part for part in line.split("/") if part not in {"", ".", ".."})


def _is_beyond(glob: str) -> bool:
    return len(glob) > LONGEST or glob.count("[") > MOST_SETS


def braces(data: bytes) -> None:
    """How many there may be, then a pattern."""
    most, glob = data[0] if data else 1, text_of(data[1:])
    characters = 1 + 64 * most
    found = expanded(glob, most, characters)
    if found is None:
        assert "{" in glob
        return
    assert len(found) <= most or "{" not in glob
    assert sum(map(len, found)) <= characters or "{" not in glob
    for one in found:
        compiled(one)
    if "{" in glob and re.fullmatch(r"[^{}\\.$]*(?:\{[^{}\\.$]*\}[^{}\\.$]*)*", glob):
        assert list(found) == [one for one in _simply_expanded(glob) if one], glob


def _simply_expanded(glob: str) -> list[str]:
    """Of braces that do not stand in one another, without sequences and escapes; a lone word keeps its braces."""
    front, opened, rest = glob.partition("{")
    if not opened:
        return [glob]
    inside, _, behind = rest.partition("}")
    tails = _simply_expanded(behind)
    words = inside.split(",") if "," in inside else [f"{{{inside}}}"]
    return [f"{front}{word}{tail}" for word in words for tail in tails]


TARGETS = {"frontmatter": frontmatter, "markdown": markdown, "globs": globs, "braces": braces}
