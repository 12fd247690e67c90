"""Every target over what was kept of fuzzing, over crashes that were left, and over inputs made by Hypothesis."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.raw_requests import REQUESTS
from tests.core.test_globs import ignored
from tests.core.test_globs import repository as repository  # noqa: PLC0414 - a fixture
from tests.fuzz import slow
from tests.fuzz.drawing import Drawn
from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
FOREIGN = ("corpus", "crashes")
WORDS = {
    "frontmatter": (
        "---\n",
        "paths:",
        " ",
        "- ",
        "**/*.ts",
        "{a,b}",
        "[",
        "]",
        ": ",
        "|",
        "\n",
        "\t",
        "'",
        '"',
        "#",
        "*a",
        "&a",
        "!!b",
        "null",
        "<!--",
        "-->",
        "\r\n",
        "é",
    ),
    "markdown": (
        "<!--",
        "-->",
        "@a.md",
        "@b",
        "\n",
        "\n\n# h\n",
        "```",
        "~~~",
        "- ",
        "> ",
        "    ",
        "`",
        "[x]",
        "]: ",
        "<div>",
        "|---|",
        "\\",
        "\r",
        "é",
        "\0",
    ),
    "globs": (
        "a",
        "b",
        "*",
        "**",
        "/",
        "?",
        "[a-c]",
        "[!a]",
        "[",
        "]",
        "\\",
        "!",
        " ",
        "[[:alpha:]]",
        "\n",
        "\n\n",
        "a/b\n",
        ".",
        "-",
        "^",
    ),
    "braces": ("{", "}", ",", "..", "a", "b", "1", "9", "\\", "$", "/", "*"),
    "accepts": ("gzip", "zstd", "x-gzip", "identity", "*", "br", ",", ";", "q=", "0", "1", ".", " ", "\n", "Q=0"),
    "tags": ('"0123"', '"0123-zstd"', "W/", "*", ",", " ", "\n", '"', "x"),
    "hosts": (
        "host: ",
        "origin: ",
        "sec-fetch-site: ",
        "localhost",
        "[::1]",
        "127.0.0.1",
        ":",
        "80",
        "http://",
        "https://",
        "evil",
        "@",
        ".",
        "same-origin",
        "cross-site",
        "\n",
        "content-length: ",
        "app.example",
    ),
    "origins": ("http", "https", "://", "a.b", "[::1]", ":", "80", "0", "/", "*", "null", " ", "@"),
    "tenants": ("a", "b", "/", "\n", "\x1f", "é"),
    "hashes": ("0", "1", "12", "*", "ab", "\n", "-", " "),
    "events": ("\0", "\3", "\x7f", "E", "-", "0", "1", "9", "+"),
    "toml": (
        "host = ",
        "port = ",
        "api_keys = ",
        "prices = ",
        "roots = ",
        "redis_url = ",
        "allowed_origins = ",
        '"0.0.0.0"',
        '"redis://h:1"',
        '"the-key-itself"',
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        "1",
        "2e4",
        "true",
        '"',
        "\n",
        "a",
    ),
    "keys": (
        "[[keys]]\n",
        "name = ",
        "sha256 = ",
        "roots = ",
        "tenant = ",
        "burst = ",
        '"a"',
        f'"{"0" * 64}"',
        '["/a"]',
        "1",
        "-1",
        '"the-key-itself"',
        "\n",
    ),
    "settings": (
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '"claudeMdExcludes"',
        '"autoMemoryDirectory"',
        '"permissions"',
        '"additionalDirectories"',
        '"language"',
        '"~/a"',
        '"/a"',
        '"../a"',
        "true",
        "null",
        "1",
    ),
}
"""What texts of a target are made of."""

MOST_STARS = 8
"""Of patterns that git is given: its time grows without bounds with them."""

DRAWING = ("messages", "markers", "estimates", "context", "scan")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def inputs(target: str) -> list[Path]:
    return sorted(path for kind in FOREIGN for path in (HERE / kind / target).glob("*"))


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_holds(target: str) -> None:
    found = inputs(target)
    assert found
    for path in found:
        try:
            TARGETS[target](path.read_bytes())
        except BaseException as error:
            error.add_note(f"the input: {path.relative_to(HERE)}")
            raise


@pytest.mark.parametrize("target", WORDS)
def test_texts_of_the_words_that_matter_hold(target: str) -> None:
    @settings(max_examples=60, database=None)
    @given(st.lists(st.sampled_from(WORDS[target]) | st.text(max_size=2), max_size=12).map("".join))
    def run(text: str) -> None:
        TARGETS[target](text.encode("utf-8", "replace"))

    run()


@pytest.mark.parametrize("target", DRAWING)
def test_whatever_is_drawn_holds(target: str) -> None:
    @settings(max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.binary(max_size=300))
    def run(data: bytes) -> None:
        TARGETS[target](data)

    run()


@settings(max_examples=40, database=None)
@given(st.lists(REQUESTS, min_size=1, max_size=3), st.sampled_from(["opus", "claude-sonnet-4-5", "x"]))
def test_any_requests_are_looked_through(requests: list[dict[str, object]], model: str) -> None:
    body = {"requests": [{"body": {**one, "model": model}} for one in requests]}
    TARGETS["lint"](json.dumps(body).encode())


@settings(max_examples=60, database=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={"type": st.sampled_from(["message", "error"]), "content": JSON, "error": JSON, "stop_reason": JSON},
    )
    | JSON
)
def test_any_answer_to_a_request_for_a_summary_is_judged(response: object) -> None:
    TARGETS["summaries"](json.dumps(response).encode())


@settings(max_examples=60, database=None)
@given(JSON, st.sampled_from([b"j", b"z", b"r"]))
def test_no_json_is_half_a_session(values: object, kind: bytes) -> None:
    TARGETS["sessions"](kind + json.dumps(values).encode())


@settings(max_examples=40, database=None)
@given(
    st.dictionaries(st.sampled_from(["workspace", "model", "messages", "tools", "touched"]), JSON),
    st.sampled_from(["context", "tokens", "scan", "attachments", "compactions", "cache/lint"]),
)
def test_any_body_has_an_answer_that_the_contract_names(values: object, name: str) -> None:
    TARGETS["body"](f"{name}\n".encode() + json.dumps(values).encode())


def test_the_slow_reader_of_patterns_agrees_with_git_on_every_kept_input(repository: Path) -> None:
    for path in inputs("globs"):
        data = path.read_bytes()
        above, _, below = data.decode("latin-1").partition("\n\n")
        patterns = [line for line in above.split("\n") if line]
        paths = sorted(
            {"/".join(part for part in line.split("/") if part.strip(".")) for line in below.split("\n")} - {""}
        )
        if (
            above.count("*") <= MOST_STARS
            and data.isascii()
            and data.decode().replace("\n", "").isprintable()
            and paths
        ):
            found = {one for one in paths if slow.git_ignores(patterns, one)}
            assert found == ignored(repository, patterns, paths), path.name


@given(st.binary(max_size=40), st.integers(0, 9), st.integers(0, 400))
def test_what_is_drawn_lies_within_its_bounds_and_is_the_first_choice_at_the_end(
    data: bytes, least: int, more: int
) -> None:
    drawn = Drawn(data)
    while drawn:
        assert least <= drawn.randint(least, least + more) <= least + more
        assert 0 <= drawn.random() < 1
    assert (drawn.randint(least, least + more), drawn.choice("ab"), drawn.maybe()) == (least, "a", False)


def test_the_command_names_its_targets() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--help"]
    told = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=True).stdout
    assert all(target in told for target in (*TARGETS, "all", "contract"))
