"""Texts of many kinds: files that a machine with Python and npm has, packages in a folder, and made ones."""

from __future__ import annotations

import difflib
import json
import pydoc_data.topics
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from zlib import crc32

from tests.bench.corpus.generated import GENERATED, made

HERE = Path(__file__).parent
LENGTH = 5_000
"""Characters of a text at most."""
MESSAGES = 30
PARTS = ("fit", "held out")
LANGUAGES = MappingProxyType({"Chinese": "zh-cn", "Japanese": "ja", "Korean": "ko", "Russian": "ru", "German": "de"})
OTHER_LANGUAGES = ("fr", "es", "it", "pl", "cs", "pt-br", "tr")


@dataclass(frozen=True, slots=True)
class Text:
    """One text. Files go into one part or the other as a whole, so that no part has seen a piece of the other's."""

    kind: str
    part: str
    content: str


def part_of(name: str) -> str:
    return PARTS[crc32(name.encode()) % 2]


def window(name: str, text: str) -> str:
    """Some ``LENGTH`` characters of ``text``, from a place that follows from its name."""
    start = crc32(name[::-1].encode()) % max(1, len(text) - LENGTH)
    return text[start : start + LENGTH]


def files(kind: str, root: Path, *patterns: str) -> Iterable[Text]:
    for path in sorted(found for pattern in patterns for found in root.glob(pattern)):
        name = path.relative_to(root).as_posix()
        text = path.read_text("utf-8", "replace")
        if len(text) > LENGTH // 10:
            yield Text(kind, part_of(name), window(name, text))


def slices(kind: str, root: Path, names: Sequence[str]) -> Iterable[Text]:
    """Pieces of a few large files, each file in one part."""
    for name, part in zip(names, cycle(PARTS)):
        text = (root / name).read_text("utf-8")
        yield from (Text(kind, part, text[at : at + LENGTH]) for at in range(LENGTH, len(text) - LENGTH, LENGTH * 2))


def topics() -> Iterable[Text]:
    for name, text in sorted(pydoc_data.topics.topics.items()):
        if len(text) > LENGTH // 5:
            yield Text("English prose", part_of(name), window(name, text))


def messages(kind: str, root: Path, language: str) -> Iterable[Text]:
    """The messages of the TypeScript compiler in ``language``."""
    said = json.loads((root / "typescript/lib" / language / "diagnosticMessages.generated.json").read_text("utf-8"))
    lines = sorted(said.values())
    for number, at in enumerate(range(0, len(lines), MESSAGES)):
        yield Text(kind, PARTS[number % 2], "\n".join(lines[at : at + MESSAGES]))


def prose(kind: str, name: str) -> Iterable[Text]:
    """Our own prose, by paragraph; every second one is held out."""
    paragraphs = (HERE / f"{name}.md").read_text("utf-8").replace("\n\n-", "\n-").split("\n\n")
    yield from (Text(kind, part, paragraph) for part, paragraph in zip(cycle(PARTS), paragraphs))


def as_read(text: Text) -> Text:
    """A file as a tool shows it, with line numbers."""
    lines = text.content.splitlines()
    return Text("numbered lines", text.part, "\n".join(f"{at:6}\t{line}" for at, line in enumerate(lines, 120)))


def as_found(text: Text) -> Text:
    lines = [line for line in text.content.splitlines() if line.strip()][::3]
    place = f"src/{crc32(text.content.encode()) % 997}/module.py"
    return Text("search results", text.part, "\n".join(f"{place}:{7 * at}:{line}" for at, line in enumerate(lines, 3)))


def as_diff(text: Text) -> Text:
    before = text.content.splitlines()
    after = [line.replace("self", "this") for at, line in enumerate(before) if at % 17]
    return Text(
        "diffs", text.part, "\n".join(difflib.unified_diff(before, after, "a/module.py", "b/module.py", lineterm=""))
    )


def npm_folder() -> Path:
    told = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=True)
    return Path(told.stdout.strip()) / "npm"


def sources(packages: Path) -> Iterable[Iterable[Text]]:
    library, headers = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("include"))
    npm = npm_folder()
    python = tuple(files("Python", library, "*.py", "asyncio/*.py", "json/*.py", "email/*.py"))
    yield topics()
    yield python
    yield from ([change(text) for text in python] for change in (as_read, as_found, as_diff))
    yield files("TypeScript", packages, "rxjs/src/internal/**/*.ts", "typescript/lib/lib.*.d.ts")
    yield files("JavaScript", npm, "lib/**/*.js", "node_modules/*/lib/*.js")
    yield slices("minified JavaScript", packages, ("lodash/lodash.min.js", "jquery/dist/jquery.min.js"))
    yield files("Markdown", npm, "docs/content/**/*.md", "node_modules/*/README.md")
    yield files("HTML", npm, "docs/output/**/*.html")
    yield files("JSON", npm, "node_modules/*/package.json")
    yield files("C headers", headers, "*.h", "cpython/*.h", "internal/*.h")
    for name, code in LANGUAGES.items():
        yield messages(name, packages, code)
        yield prose(f"{name} prose", code[:2])
    yield prose("other scripts", "other")
    for code in OTHER_LANGUAGES:
        yield messages("other European", packages, code)


def evenly(texts: Sequence[Text], number: int) -> Sequence[Text]:
    step = max(1, len(texts) // number)
    return texts[::step][:number]


def corpus(packages: Path, each: int = 60) -> tuple[Text, ...]:
    """At most ``each`` texts per kind and part, from files and from seeds."""
    grouped: dict[tuple[str, str], list[Text]] = {}
    for text in (text for source in sources(packages) for text in source):
        grouped.setdefault((text.kind, text.part), []).append(text)
    for kind in GENERATED:
        for part in PARTS:
            rows = [Text(kind, part, content[:LENGTH]) for content in made(kind, part, each)]
            grouped.setdefault((kind, part), []).extend(rows)
    return tuple(text for rows in grouped.values() for text in evenly(rows, each))
