"""A session of thirty turns over HTTP: every cause of a broken prompt cache once, and named right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import yaml

from app.building import build_contexts
from app.core.cache_report import Cause
from app.main import build_app
from app.settings import Settings
from tests.asking import CWD, ask, inline
from tests.serving import serve

TURNS: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "recorded_session.yaml").read_bytes(), Loader=yaml.CSafeLoader
)
READ = {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object"}}
ANSWER = "I have looked at it. " * 8


@dataclass
class Watch:
    """A clock that a test sets."""

    seconds: float = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Told:
    """The conversation as the caller keeps it, and what it asks with."""

    client: httpx.Client
    watch: Watch
    messages: list[dict[str, Any]] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=lambda: {"model": "claude-haiku-4-5", "tools": [READ]})
    instructions: str = "Prices are in cents."

    def turn(self, turn: dict[str, Any]) -> dict[str, Any]:
        """The answer's word on the request before."""
        self.watch.seconds += 60 * turn.get("minutes", 1)
        if self.messages:
            usage = {"usage": turn["usage"]} if "usage" in turn else {}
            self.messages.append({"role": "assistant", "content": ANSWER, **usage})
        self.messages.append({"role": "user", "content": turn["say"]})
        for number, text in turn.get("edit", {}).items():
            self.messages[number] = {**self.messages[number], "content": text}
        for number in turn.get("mark", ()):
            text = self.messages[number]["content"]
            marked = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
            self.messages[number] = {**self.messages[number], "content": [marked]}
        self.instructions = turn.get("files", self.instructions)
        self.fields |= turn.get("with", {})
        files = {f"{CWD}/CLAUDE.md": self.instructions}
        body = inline(files, session_id="recorded", messages=self.messages, **self.fields)
        previous: dict[str, Any] = ask(self.client, body)["cache"]["previous"]
        return previous


@pytest.fixture(scope="module")
def answers() -> Iterator[list[dict[str, Any]]]:
    settings, watch = Settings(prices={"claude-sonnet-4-5": 3.0}), Watch()
    contexts = build_contexts(settings)
    contexts = replace(contexts, known=replace(contexts.known, now=watch))
    with (
        serve(build_app(settings, contexts)) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        told = Told(client, watch)
        yield [told.turn(turn) for turn in TURNS]


def test_each_cause_occurs_once_in_thirty_turns() -> None:
    assert len(TURNS) == 30
    assert Counter(turn["cause"] for turn in TURNS if "cause" in turn) == Counter(get_args(Cause))


@pytest.mark.parametrize("number", range(30))
def test_what_broke_the_cache_is_named(number: int, answers: list[dict[str, Any]]) -> None:
    turn, previous = TURNS[number], answers[number]
    assert (previous["hit"], previous["cause"]) == (turn["hit"], turn.get("cause"))
    change = previous["first_change"] or {}
    assert [change.get(key) for key in ("at", "section") if key in turn] == [
        turn[key] for key in ("at", "section") if key in turn
    ]
    assert previous["agreed"] == turn.get("agreed")


@pytest.mark.parametrize("number", range(30))
def test_what_is_written_again_is_told_in_tokens_and_money(number: int, answers: list[dict[str, Any]]) -> None:
    previous = answers[number]
    if previous["hit"] is False:
        assert previous["rewritten_tokens"] > 0
        assert previous["cost"]["currency"] == "USD"
        assert previous["cost"]["amount"] >= previous["rewritten_tokens"] * 3.0 / 1_000_000
    else:
        assert previous["rewritten_tokens"] == 0
