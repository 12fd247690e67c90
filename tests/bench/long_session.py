"""A session of 2,000 turns that is compacted again and again, with failures: ``python -m tests.bench.long_session``.

An agent is played over HTTP against the service and a stand-in for the Messages API, whose usage says 1.15 times what
an independent count finds, and which refuses what is more than the window. The agent obeys the service: it compacts
when it is told to, goes on without when that fails, and sends nothing at the blocking limit, where a person compacts by
hand. Prints a table and where a law is breached (exit code 1 then), and draws ``plots/long_session.png`` of the first
session. Exit code 2 when matplotlib is missing.
"""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import io
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.core.budget import limits
from app.core.facts import TokenOptions
from app.data.tables import load_models
from tests.bench.corpus.dice import COMMON, NOUNS, Dice
from tests.compacting import Watch, compacting, timed, words
from tests.core.api_rules import violations
from tests.serving import serve
from tests.standin.prompt_cache import PromptCache, prefixes, size
from tests.standin.rules import Json
from tests.standin.server import Ending, Failure, Scripted, StandIn

MODEL = "claude-sonnet-4-6"
CWD = "/home/dev/p"
FIRST_DAY = dt.date(2026, 11, 30)
TURNS_PER_DAY = 300
TURN_SECONDS = 60.0
TRUTH_BY_COUNT = 1.15
LONGEST_SAID = 1_200
PARTS = 12
HEADERS = {"x-api-key": "test", "anthropic-version": "2023-06-01"}
TOOLS = [
    {"name": name, "description": f"{name} does one thing.", "input_schema": {"type": "object"}}
    for name in ("Bash", "Edit", "Read")
]
ANSWERS: Mapping[str, Scripted] = MappingProxyType(
    {"overloaded": Failure(529), "refused": Ending("refusal"), "empty": words()}
)
"""What the upstream says, by the reason that the service gives for it."""
VERDICTS = ("did_not_help", "fixed_parts_too_large")
"""What the service says itself where the instructions leave no room."""
BEYOND = "compaction cannot help"

WORDS = (*NOUNS.split(), *COMMON.split())


@dataclass(frozen=True, slots=True)
class Scenario:
    """``window`` in tokens, ``instructions`` in bytes of the CLAUDE.md, ``results`` the most characters of a turn's.

    ``percent`` lowers the threshold. ``cool_down`` in turns, 0 for never. ``troubled``: the upstream fails at times.
    """

    name: str
    turns: int
    window: int = 100_000
    instructions: int = 4_000
    results: int = 30_000
    percent: float | None = None
    cool_down: int = 4
    method: str = "rough"
    troubled: bool = True

    @property
    def crowded(self) -> bool:
        return self.instructions > self.window

    @property
    def tokens(self) -> Json:
        return {"max_context_tokens": self.window, "percent_override": self.percent, "method": self.method}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One compaction. ``foreseen``: its ``reason`` is the one that was injected, or None. ``calls`` went upstream."""

    trigger: str
    reason: str | None
    foreseen: bool
    before: int
    after: int | None
    breaker: str
    calls: int


@dataclass(frozen=True, slots=True)
class Turn:
    """``told`` tokens before and ``sent`` after what compaction there was; ``truth`` is the API's, None: nothing sent.

    ``failing``: how many attempts in a row had failed before; ``breaker`` is the state in which the turn began.
    ``beyond``: it was told that no compaction can help.
    """

    told: int
    should: bool
    sent: int
    truth: int | None
    failing: int
    breaker: str
    attempts: tuple[Attempt, ...]
    hit: bool | None
    cause: str | None
    read: int = 0
    written: int = 0
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    scenario: Scenario
    threshold: int
    blocking: int
    turns: tuple[Turn, ...]
    illegal: tuple[str, ...]

    @property
    def attempts(self) -> list[tuple[int, Attempt]]:
        return [(number, one) for number, turn in enumerate(self.turns) for one in turn.attempts]

    @property
    def helped(self) -> list[tuple[int, Attempt]]:
        return [(number, one) for number, one in self.attempts if one.reason is None]


SCENARIOS = (
    Scenario("rough", 2_000),
    Scenario("estimate", 2_000, method="estimate"),
    Scenario("crowded", 200, 60_000, 150_000, results=3_000, method="estimate", troubled=False),
    Scenario("hopeless", 200, 60_000, 150_000, results=3_000, percent=50, cool_down=0, troubled=False),
)
FAST_OCTREE = 2
"""Pillow's way to choose colours that keeps the rare ones."""
PLOT = Path(__file__).parent / "plots" / "long_session.png"


def truly(count: int) -> int:
    return math.ceil(TRUTH_BY_COUNT * count)


class TrueCache(PromptCache):
    def use(self, body: Json) -> Json:
        used = super().use(body)
        return {name: truly(tokens) for name, tokens in used.items() if isinstance(tokens, int)}


class Upstream(StandIn):
    """Refuses what is more than ``window`` tokens. ``said`` is what it answers where no summary is asked for."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.cache = TrueCache()
        self.window = window
        self.answered = 0
        self.said: list[Json] = []

    def _check(self, request: Request, body: Json, *, counting: bool) -> None:
        super()._check(request, body, counting=counting)
        tokens = truly(prefixes(body)[-1].tokens)
        if tokens > self.window:
            raise HTTPException(400, f"prompt is too long: {tokens} tokens > {self.window} maximum")

    def _message(self, body: Json) -> Json:
        message = super()._message(body)
        if body.get("stream"):
            return message
        self.answered += 1
        usage = message["usage"] | {"output_tokens": truly(sum(map(size, self.said)))}
        return message | {"id": f"msg_{self.answered}", "content": self.said, "usage": usage}


class Writer:
    """What the user, the model and the tools say; it follows from a seed."""

    def __init__(self, seed: str, largest: int) -> None:
        self.dice, self.largest = Dice(seed), largest
        lines = (" ".join(self.dice.pick(WORDS) for _ in range(12)) for _ in range(1_200))
        self.prose = ".\n".join(lines)

    def size(self, median: int, spread: float, most: int) -> int:
        """Log-normal."""
        share = self.dice.number(1, 9_999) / 10_000
        return min(most, max(20, round(median * math.exp(spread * statistics.NormalDist().inv_cdf(share)))))

    def text(self, size: int) -> str:
        at = self.dice.number(0, len(self.prose) - size - 1)
        return f"{self.dice.drawn} {self.prose[at : at + size].strip()}"

    def chance(self, percent: int) -> bool:
        return self.dice.number(1, 100) <= percent

    def said(self, number: int) -> list[Json]:
        """An answer: thinking at times, words, and mostly one to three calls."""
        blocks: list[Json] = []
        if self.chance(35):
            thought = self.text(self.size(500, 0.8, LONGEST_SAID))
            blocks.append({"type": "thinking", "thinking": thought, "signature": f"s{number}"})
        blocks.append({"type": "text", "text": self.text(self.size(250, 0.8, LONGEST_SAID))})
        for at in range(self.dice.number(1, 3) if self.chance(80) else 0):
            path = f"src/part{self.dice.number(1, PARTS)}/f{number}.py"
            blocks.append({"type": "tool_use", "id": f"t{number}_{at}", "name": "Read", "input": {"path": path}})
        return blocks

    def prompt(self) -> str:
        return self.text(self.size(300, 1.0, self.largest // 5))

    def results(self, calls: Sequence[Json]) -> list[Json]:
        """Widely varying, one in twenty as large as they come."""
        size = self.size(self.largest // 7, 1.2, self.largest) // len(calls)
        return [{"type": "tool_result", "tool_use_id": call["id"], "content": self.text(size)} for call in calls]


@dataclass
class Agent:
    """Plays a scenario. ``files`` are the workspace's, ``messages`` the conversation."""

    scenario: Scenario
    service: httpx.Client
    upstream: Upstream
    api: httpx.Client
    watch: Watch
    writer: Writer
    messages: list[Json] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    illegal: list[str] = field(default_factory=list)
    failing: int = 0
    opened: int = 0
    hopeless: bool = False

    def __post_init__(self) -> None:
        self.troubles = self._troubles()
        self.files = {f"{CWD}/src/part{part}/CLAUDE.md": f"Notes on part {part}." for part in range(1, PARTS + 1)}
        self._instruct(0)

    def played(self) -> Run:
        turns = tuple(self.turn(number) for number in range(self.scenario.turns))
        lines = limits(self.scenario.window, load_models().find(MODEL), TokenOptions(**self.scenario.tokens))
        return Run(self.scenario, lines.threshold, lines.blocking, turns, tuple(self.illegal))

    def turn(self, number: int) -> Turn:
        self.watch.seconds += TURN_SECONDS
        body = self._asked(number)
        context = self._posted("/v1/context", body)
        state, failing = context["compaction"], self.failing
        attempts: list[Attempt] = []
        told = context["tokens"]["used"]
        if state["should_compact"]:
            context = self._compacted(body, "automatic", attempts) or context
        if context["compaction"]["is_at_blocking_limit"] and not self.hopeless:
            context = self._compacted(body, "manual", attempts) or context
        self._held_to_rules(number, context["request"])
        previous = context["cache"]["previous"]
        used = {} if context["compaction"]["is_at_blocking_limit"] else self._answered(number, context)
        read, written = (used.get(f"cache_{kind}_input_tokens", 0) for kind in ("read", "creation"))
        return Turn(
            told,
            state["should_compact"],
            context["tokens"]["used"],
            read + written + used["input_tokens"] if used else None,
            failing,
            state["breaker"]["state"],
            tuple(attempts),
            previous["hit"] if used else None,
            previous["cause"] if used else None,
            read,
            written,
            any(BEYOND in line for line in state["explain"]),
        )

    def _asked(self, number: int) -> Json:
        """The body of the turn: what the user or the tools say now, what they touched, what changed on disk."""
        calls = self._calls()
        content = self.writer.results(calls) if calls else self.writer.prompt()
        self.messages.append({"role": "user", "content": content})
        changed = self.writer.chance(2)
        if changed:
            self._instruct(number)
        day = FIRST_DAY + dt.timedelta(days=number // TURNS_PER_DAY)
        body = {
            "model": MODEL,
            "session_id": self.scenario.name,
            "date": day.isoformat(),
            "workspace": {
                "source": "inline",
                "cwd": CWD,
                "home": "/home/dev",
                "platform": "linux",
                "files": self.files,
            },
            "tools": TOOLS,
            "thinking": {"type": "adaptive"},
            "tokens": self.scenario.tokens,
            "messages": self.messages,
            "touched": [{"path": f"{CWD}/{calls[0]['input']['path']}"}] if calls and self.writer.chance(10) else [],
        }
        return body | ({"freshness": "validate"} if changed and self.writer.chance(50) else {})

    def _calls(self) -> list[Json]:
        last = self.messages[-1] if self.messages else {"role": "user"}
        return [one for one in last["content"] if one["type"] == "tool_use"] if last["role"] == "assistant" else []

    def _instruct(self, number: int) -> None:
        line = f"Rule of turn {number}: prices are in cents.\n"
        self.files[f"{CWD}/CLAUDE.md"] = line * (self.scenario.instructions // len(line))

    def _posted(self, path: str, body: Json) -> Any:
        response = self.service.post(path, json=body)
        if response.is_error:
            raise SystemExit(f"{path}: {response.status_code} {response.text[:500]}")
        return response.json()

    def _compacted(self, body: Json, trigger: str, attempts: list[Attempt]) -> Json | None:
        """The context of the new conversation, with which the agent goes on; None when it failed."""
        trouble = next(self.troubles) if trigger == "automatic" and self.scenario.troubled else None
        if trouble:
            self.upstream.answer_next(ANSWERS[trouble])
        self.upstream.reply = self.writer.text(self.writer.size(4_000, 0.5, 12_000))
        told = self._posted("/v1/compactions", body | {"mode": "run", "trigger": trigger})
        reason, breaker = told["failure"] and told["failure"]["reason"], told["breaker"]["state"]
        calls = self._forgotten()
        foreseen = reason == trouble or (self.scenario.crowded and reason in VERDICTS)
        attempts.append(Attempt(trigger, reason, foreseen, told["tokens_before"], told["tokens_after"], breaker, calls))
        self.opened += breaker == "open" and trigger == "automatic"
        self.hopeless = reason == "fixed_parts_too_large"
        self.failing = self.failing + (trigger == "automatic") if reason else 0
        if reason is None:
            self.messages = told["messages"]
        context: Json | None = told["context"]
        return context

    def _answered(self, number: int, context: Json) -> Json:
        """Sends the request; the usage of the answer."""
        self.upstream.said = self.writer.said(number)
        body = context["request"] | {"max_tokens": 8_000}
        response = self.api.post("/v1/messages", json=body, headers=HEADERS | context["headers"])
        self._forgotten()
        if response.is_error:
            self.illegal.append(f"turn {number}: {response.text}")
            return {}
        message = response.json()
        self.messages.append({name: message[name] for name in ("role", "content", "id", "usage")})
        usage: Json = message["usage"]
        return usage

    def _forgotten(self) -> int:
        """How many requests went upstream since it was asked last; they are held to the rules and forgotten."""
        calls = len(self.upstream.seen)
        for seen in self.upstream.seen:
            self._held_to_rules(-1, seen.body)
        self.upstream.seen.clear()
        return calls

    def _held_to_rules(self, number: int, body: Json) -> None:
        found = violations(body.get("tools", []), body["system"], body["messages"], model=MODEL)
        self.illegal += [f"turn {number}: {one}" for one in found]

    def _troubles(self) -> Iterator[str | None]:
        """What befalls each automatic compaction; None: nothing. Twice in a round all fail until the breaker opens."""
        while True:
            yield from (None, None, None, "overloaded", "overloaded", None, None, "refused", None, None, "empty")
            yield from self._until_open()
            yield from (None, None, None, "refused", "empty", None, None)
            yield from self._until_open()
            yield from ("overloaded", None)

    def _until_open(self) -> Iterator[str]:
        opened = self.opened
        for reason in cycle(("overloaded", "refused", "empty")):
            if self.opened > opened:
                return
            yield reason


def played(scenario: Scenario, seed: str = "1") -> Run:
    """One session from its first turn to its last."""
    upstream, watch = Upstream(scenario.window), Watch()
    cool_down = scenario.cool_down * TURN_SECONDS
    with (
        serve(upstream.app) as address,
        compacting(address, changed=timed(watch), breaker_cool_down_seconds=cool_down, log_level="critical") as service,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as api,
    ):
        return Agent(scenario, service, upstream, api, watch, Writer(seed, scenario.results)).played()


def breaches(run: Run) -> list[str]:
    """Where the laws do not hold."""
    turns = (f"turn {number}: {one}" for number, turn in enumerate(run.turns) for one in _of_turn(run, turn))
    return [*run.illegal, *turns, *_of_breaker(run), *_loops(run)]


def _of_turn(run: Run, turn: Turn) -> Iterator[str]:
    automatic = [one for one in turn.attempts if one.trigger == "automatic"]
    sound = _standing(turn) == "sound" and not any(one.reason for one in turn.attempts)
    if turn.told >= run.blocking and _standing(turn) == "sound" and not turn.beyond:
        yield f"at the blocking limit with {turn.told:,}"
    if turn.truth is not None and turn.truth >= run.blocking and sound:
        yield f"{turn.truth:,} were sent"
    if turn.truth is not None and turn.truth > run.scenario.window:
        yield f"{turn.truth:,} are more than the window"
    if len(automatic) != turn.should or (turn.should and (turn.breaker == "open" or turn.told < run.threshold)):
        yield "compacted or not against the figures"
    if turn.beyond and turn.should:
        yield "told to compact what no compaction can help"
    for one in turn.attempts:
        if one.reason == "fixed_parts_too_large" and one.calls:
            yield "the model was asked for a summary that could not help"
        if one.reason is None and max(one.after or 0, turn.truth or 0) >= run.threshold:
            yield f"compacted to {one.after}, in truth {turn.truth}"
        if not one.foreseen:
            yield f"compaction failed by {one.reason}"


def _of_breaker(run: Run) -> Iterator[str]:
    failing = 0
    for number, one in run.attempts:
        if one.trigger == "automatic" or one.reason is None:
            failing = failing + 1 if one.reason else 0
        if one.breaker != ("open" if failing >= 3 else "closed"):
            yield f"turn {number}: the breaker is {one.breaker} after {failing} failures in a row"


def _loops(run: Run) -> Iterator[str]:
    """A compaction that helped, followed by another before the model has answered."""
    answered = True
    for number, turn in enumerate(run.turns):
        for one in turn.attempts:
            if not answered:
                yield f"turn {number}: compacted twice in a row"
            answered = one.reason is not None
        answered = answered or turn.truth is not None


MARKS: Sequence[tuple[str, str, str, Callable[[Attempt], bool]]] = (
    ("compacted", "v", "#2e7d32", lambda one: one.reason is None and one.trigger == "automatic"),
    ("compacted by hand", "D", "#6a1b9a", lambda one: one.reason is None and one.trigger == "manual"),
    ("failed", "x", "#b00000", lambda one: one.reason is not None),
)


def figures(run: Run) -> dict[str, str]:
    """What the table tells of a session."""
    turns, sent = run.turns, [turn for turn in run.turns if turn.truth is not None]
    hits = Counter(turn.hit for turn in sent)
    causes = Counter(turn.cause for turn in sent if turn.hit is False)
    away = [run.blocking - turn.truth for turn in sent if turn.truth is not None]
    failed = Counter(one.reason for _, one in run.attempts if one.reason)
    by_hand = sum(one.trigger == "manual" for _, one in run.helped)
    at_limit = [turn for turn in turns if turn.told >= run.blocking]
    between = [after - before for (before, _), (after, _) in pairwise(run.helped)]
    return {
        "turns, sent of them": f"{len(turns):,}, {len(sent):,}",
        "compactions that helped, by hand of them": f"{len(run.helped)}, {by_hand}",
        "turns between them, fewest and mean": f"{min(between)}, {statistics.mean(between):.1f}" if between else "–",
        "failed": ", ".join(f"{count} {reason}" for reason, count in failed.most_common()) or "–",
        "the breaker opened": str(_openings(run)),
        "threshold, blocking limit": f"{run.threshold:,}, {run.blocking:,}",
        "most tokens told": f"{max(turn.told for turn in turns):,}",
        "most tokens sent, in truth": f"{max(turn.truth or 0 for turn in sent):,}",
        "to the blocking limit when sent, smallest and mean": f"{min(away):,}, {statistics.mean(away):,.0f}",
        "told at the limit: no failure before, failures, breaker open": ", ".join(
            str(sum(_standing(turn) == standing for turn in at_limit)) for standing in ("sound", "failing", "open")
        ),
        "cache hits": f"{hits[True] / (hits[True] + hits[False]):.1%}",
        "misses": ", ".join(f"{count} {cause}" for cause, count in causes.most_common()) or "–",
        "tokens read, written": f"{sum(turn.read for turn in turns):,}, {sum(turn.written for turn in turns):,}",
        "breaches": str(len(breaches(run))),
    }


def _openings(run: Run) -> int:
    return sum(one.breaker == "open" and one.trigger == "automatic" for _, one in run.attempts)


def _standing(turn: Turn) -> str:
    return "open" if turn.breaker != "closed" else "failing" if turn.failing else "sound"


def table(runs: Sequence[Run]) -> str:
    columns = [figures(run) for run in runs]
    lines = [("", *(run.scenario.name for run in runs)), ("---", *["--:"] * len(runs))]
    lines += [(name, *(column[name] for column in columns)) for name in columns[0]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(run: Run, path: Path) -> None:
    """Needs matplotlib. Few colours keep the file small."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(12, 4.4), dpi=100, layout="constrained")
    axes = figure.subplots()
    for number, turn in enumerate(run.turns):
        if turn.breaker == "open":
            axes.axvspan(number - 0.5, number + 0.5, color="#f3a0a0", linewidth=1.5)
    axes.plot([turn.told for turn in run.turns], color="#9db8d2", linewidth=0.8, label="told, before compaction")
    axes.plot([turn.truth for turn in run.turns], color="#1f4e79", linewidth=0.8, label="sent, in truth")
    axes.axhline(run.threshold, color="#c08000", linewidth=1, label="threshold")
    axes.axhline(run.blocking, color="#b00000", linewidth=1, label="blocking limit")
    for label, marker, color, wanted in MARKS:
        points = [(number, one.before) for number, one in run.attempts if wanted(one)]
        axes.plot(*zip(*points, strict=True), marker, color=color, markersize=5, label=label) if points else None
    axes.fill_between([], [], color="#f3a0a0", label="breaker open")
    axes.set(xlabel="turn", ylabel="tokens", xlim=(0, len(run.turns)), ylim=(0, run.blocking * 1.25))
    axes.legend(ncols=4, loc="upper center", frameon=False)
    drawn = io.BytesIO()
    figure.savefig(drawn)
    importlib.import_module("PIL.Image").open(drawn).convert("RGB").quantize(32, method=FAST_OCTREE).save(
        path, optimize=True
    )


def main() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write('The plot needs matplotlib: pip install -e ".[bench]"\n')
        raise SystemExit(2)
    runs = [played(scenario) for scenario in SCENARIOS]
    PLOT.parent.mkdir(exist_ok=True)
    draw(runs[0], PLOT)
    found = [f"{run.scenario.name}, {one}\n" for run in runs for one in breaches(run)]
    sys.stdout.write(f"{table(runs)}\n\n{PLOT.name}: {PLOT.stat().st_size / 1024:.0f} KiB\n{''.join(found[:20])}")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
