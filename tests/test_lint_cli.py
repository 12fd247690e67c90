"""``strata lint-cache``: the shapes of files it reads, what it tells people, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import cli
from app.wire.lints import MOST_REQUESTS
from tests.test_lint import PRICES, STATIC, linted, turn

A, B, C = turn("a"), turn("a", "b", "c"), turn("a", "b", "c", "d", "e")
USAGE = {"input_tokens": 9, "cache_read_input_tokens": 0, "output_tokens": 1}


def strata(*arguments: Path | str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["lint-cache", *map(str, arguments)], env=environment)


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def written(folder: Path, *contents: Any) -> list[Path]:
    """Files named 0, 1, …; text as it is, anything else as JSON."""
    files = [folder / str(index) for index in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return files


def headings(told: str) -> list[str]:
    return [line for line in told.splitlines() if line.startswith("request ")]


def test_a_sound_series_ends_with_0(tmp_path: Path) -> None:
    one, two = written(tmp_path, A, B)
    done = strata(one, two)
    assert done.exit_code == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[:3] == [f"request 1: {one}", f"request 2: {two}", "  hit"]
    assert told[-2:] == ["", "Nothing to mend."]


def test_one_request_is_told_without_a_blank_line_in_front(tmp_path: Path) -> None:
    [one] = written(tmp_path, A)
    assert strata(one).stdout.splitlines() == [f"request 1: {one}", "", "Nothing to mend."]


@pytest.mark.parametrize(
    "content",
    [
        [A, B],
        [{"body": A, "usage": USAGE, "started": 1.5}, {"body": B}],
        [A, {"body": B}],
        {"requests": [{"body": A}, {"body": B, "started": None}]},
        {"requests": [A, B]},
        lines(A, B),
        lines({"body": A}, B),
        lines(A, "x").replace('"x"\n', "\n" + json.dumps(B)),
        "\ufeff" + lines(A, B).replace("\n", "\r\n"),
        json.dumps([A, B], indent=2),
        lines([A], {"requests": [{"body": B}]}),
    ],
)
def test_every_shape_of_a_file_is_the_same_series(content: Any, tmp_path: Path, service: httpx.Client) -> None:
    done = strata(*written(tmp_path, content), "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == linted(service, A, B)


def test_requests_are_named_by_their_place_over_all_files(tmp_path: Path) -> None:
    files = written(tmp_path, A, [B, C], "\n" + lines(C, [C, C]), {"requests": [{"body": C}]})
    assert headings(strata(*files).stdout) == [
        f"request 1: {files[0]}",
        f"request 2: {files[1]}, request 1",
        f"request 3: {files[1]}, request 2",
        f"request 4: {files[2]}, line 2",
        f"request 5: {files[2]}, line 3, request 1",
        f"request 6: {files[2]}, line 3, request 2",
        f"request 7: {files[3]}",
    ]


@pytest.mark.parametrize("usage", [USAGE, {"type": "message", "usage": USAGE}])
def test_a_usage_or_a_whole_response_is_believed_and_a_miss_ends_with_4(usage: Any, tmp_path: Path) -> None:
    done = strata(*written(tmp_path, [{"body": A, "usage": usage}, {"body": B, "usage": usage}]))
    assert done.exit_code == 4
    assert "  miss, server_side_or_unknown" in done.stdout.splitlines()
    assert "  the usage says that less was read than could be" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "1 request missed the cache."


def test_times_are_taken(tmp_path: Path) -> None:
    done = strata(*written(tmp_path, lines({"body": A, "started": 0}, {"body": B, "started": 400})))
    assert "  miss, ttl_expired" in done.stdout.splitlines()
    assert done.exit_code == 4


def test_findings_stand_with_their_requests(tmp_path: Path) -> None:
    tools = [{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}}]
    bare = {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": "a"}]}
    series = [{**A, "tools": tools}, {**B, "tools": tools[::-1]}, bare]
    done = strata(*written(tmp_path, series))
    told = done.stdout.splitlines()
    expected = [*headings(done.stdout), "  tool_order at tools", "  no_marker at request"]
    first, second, third, order, marker = map(told.index, expected)
    assert first < second < order < third < marker
    assert told[-1] == "2 requests missed the cache, 2 findings to mend."
    assert done.exit_code == 4


def test_a_finding_without_a_miss_ends_with_4_in_json_too(tmp_path: Path) -> None:
    dated = turn("a", system=[{**STATIC, "text": f"It is 10:11:12 in /home/ada. {STATIC['text']}"}])
    files = written(tmp_path, dated)
    told = strata(*files)
    assert told.stdout.splitlines()[1] == "  volatile_text at system[0]"
    assert told.stdout.splitlines()[-1] == "2 findings to mend."
    assert (told.exit_code, strata(*files, "--json").exit_code) == (4, 4)


def test_a_miss_tells_its_place_and_the_words_before_and_after(tmp_path: Path) -> None:
    told = strata(*written(tmp_path, [turn("one"), turn("two")])).stdout.splitlines()
    assert "  miss, messages_rewritten at messages[0].content[0]" in told
    assert [line[:10] for line in told if line.startswith(("  before: ", "  after:  "))] == ["  before: ", "  after:  "]


def test_the_cost_is_told_at_the_prices_of_the_settings(tmp_path: Path) -> None:
    bare = {"model": "claude-sonnet-5-5", "system": STATIC["text"], "messages": [{"role": "user", "content": "a"}]}
    files = written(tmp_path, A, bare)
    again = "  0 tokens read, 0 written again, 1,800 sent again without a marker"
    told = strata(*files, STRATA_PRICES=json.dumps(PRICES), STRATA_CURRENCY="EUR").stdout.splitlines()
    assert f"{again}, at a cost of 0.007020 EUR" in told
    assert again in strata(*files).stdout.splitlines()


def test_prices_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    done = strata(*written(tmp_path, A), STRATA_PRICES='{"sonnet": 0}')
    assert done.exit_code == 2
    assert done.stderr == "strata: prices.sonnet: Input should be greater than 0\n"


NEEDED = "this field is needed: add it"
UNKNOWN = "there is no such field: check its spelling, or remove it"
DEEP: Any = {"model": "m", "messages": [], "x": json.loads("[" * 300 + "]" * 300)}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"messages": []}, f": /model: {NEEDED}"),
        ([A, {"messages": []}], f", request 2: /model: {NEEDED}"),
        ([A, {"body": {"messages": []}}], f", request 2: /body/model: {NEEDED}"),
        ([A, {"body": B, "bogus": 1}], f", request 2: /bogus: {UNKNOWN}"),
        ({"requests": [{"body": A}, {"body": B, "bogus": 1}]}, f", request 2: /bogus: {UNKNOWN}"),
        ({"requests": [A], "bogus": 1}, f": /bogus: {UNKNOWN}"),
        ({"requests": 7}, ": /requests: it must be a list"),
        (7, ": it must be a request, a JSON object"),
        ([A, "x"], ", request 2: it must be a request, a JSON object"),
        ("\n" + lines(A, {"body": {"model": "m"}}), f", line 3: /body/messages: {NEEDED}"),
        (lines(A) + "\n{]\n", ", line 3 is not JSON: "),
        (lines(A) + '{"model": NaN}', ", line 2 is not JSON: "),
        ("{", " is not JSON: unexpected end of data: line 1 column 2"),
        ("", " is not JSON: "),
        ('{\n"model":\n}', " is not JSON: unexpected character, expected a JSON value: line 3 column 1"),
        (DEEP, ": it cannot be written as JSON: "),
    ],
)
def test_a_fault_is_told_with_its_file_and_place(content: Any, fault: str, tmp_path: Path) -> None:
    good, bad = written(tmp_path, A, content)
    done = strata(good, bad)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"strata: {bad}{fault}")
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = strata(tmp_path / "none")
    assert (done.exit_code, done.stderr) == (
        2,
        f"strata: {tmp_path / 'none'} cannot be read: No such file or directory\n",
    )


def test_files_without_any_request_are_refused(tmp_path: Path) -> None:
    done = strata(*written(tmp_path, [], {"requests": []}))
    assert (done.exit_code, done.stderr) == (2, "strata: there is no request in these files\n")


def test_more_requests_than_the_endpoint_takes_are_refused_with_their_number(tmp_path: Path) -> None:
    done = strata(*written(tmp_path, [A] * MOST_REQUESTS, B))
    assert done.exit_code == 2
    assert done.stderr == f"strata: these are {MOST_REQUESTS + 1} requests: give {MOST_REQUESTS} or fewer at once\n"


def test_help_tells_the_exit_codes() -> None:
    told = " ".join(strata("--help").stdout.split())
    assert "0 nothing to mend; 2 a file cannot be read, or holds something else; 4 a request missed" in told
