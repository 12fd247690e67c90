import copy
import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.blocks import Block
from app.core.facts import CacheOptions
from app.core.markers import plan_markers
from tests.core.api_rules import cacheable, lasts, marked, takes_an_hour, violations
from tests.core.marker_cases import MODELS, PROVIDERS, case
from tests.standin.prompt_cache import PromptCache, prefixes

DONE_TO_THEIRS = {"marker_dropped", "marker_moved", "marker_ttl_changed", "marker_scope_removed"}
TARGET = re.compile(r"moved to (\S+)\.$")
SEEDS = range(5)
REQUESTS_PER_SEED = 2_500


def spelled(where, messages):
    """The name of a place as the service gives it: ``messages/0/content/1`` is ``messages[0].content[1]``."""
    steps = where.split("/")
    if steps[0] == "messages" and len(steps) == 4 and int(steps[3]) == len(messages[int(steps[1])]["content"]) - 1:
        steps = steps[:2]
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps).removeprefix(".")


def by_place(tools, system, messages, automatic):
    found = {spelled(where, messages): marker for where, _, marker in marked(tools, system, messages)}
    return found if automatic is None else {**found, "cache_control": automatic}


def bare(value):
    """Without markers; a message's bare text and the one block it may become are the same."""
    if isinstance(value, Block):
        return {"type": "text", "text": value.text}
    if isinstance(value, dict):
        kept = {key: bare(inner) for key, inner in value.items() if key != "cache_control" or isinstance(inner, str)}
        if "role" in kept and isinstance(kept["content"], str):
            kept["content"] = [{"type": "text", "text": kept["content"]}]
        return kept
    return [bare(inner) for inner in value] if isinstance(value, list | tuple) else value


def end_of(messages):
    """The name of the last place in messages for a marker of ours, None without one."""
    for index in reversed(range(len(messages))):
        content = messages[index]["content"]
        blocks = [content] if isinstance(content, str) else content
        for at in reversed(range(len(blocks))):
            if cacheable(blocks[at]):
                return f"messages[{index}]" if at == len(blocks) - 1 else f"messages[{index}].content[{at}]"
    return None


class Outcome:
    """A case, its plan, and what the checks ask of both."""

    def __init__(self, case_):
        self.case = case_
        self.planned = case_.planned()
        raw = [block if isinstance(block, dict) else {} for block in case_.system]
        sent = self.planned
        self.theirs = by_place(case_.tools, raw, case_.messages, case_.automatic)
        self.sent = by_place(sent.tools, sent.system, sent.messages, sent.automatic)
        self.codes = {(notice.code, notice.where) for notice in sent.notices}
        self.moved = {found[1] for notice in sent.notices if (found := TARGET.search(notice.message))}
        self.ours = self.sent.keys() - self.theirs.keys() - self.moved

    def told(self, where, *codes):
        return any((code, where) in self.codes for code in codes)

    def breaches(self):
        return violations(
            self.planned.tools,
            self.planned.system,
            self.planned.messages,
            scope_allowed=self.case.cache.scope_on_wire,
            automatic=self.planned.automatic,
            provider=self.case.provider,
            model=self.case.model.id,
            betas=self.planned.betas,
        )

    def untold(self):
        """What happened to a marker without a word."""
        for where, marker in self.theirs.items():
            if self.sent.get(where) != marker and not self.told(where, *DONE_TO_THEIRS):
                yield f"the caller's at {where}"
            stays = where in self.sent and not self.told(where, "marker_dropped", "marker_moved")
            if stays and lasts(marker) != lasts(self.sent[where]) and not self.told(where, "marker_ttl_changed"):
                yield f"the lifetime of the caller's at {where}"
        for where in self.wanted():
            if where not in self.sent and not self.told(
                where, "marker_dropped", "marker_moved", "prefix_below_minimum"
            ):
                yield f"ours at {where}"
        for where in self.ours:
            if lasts(self.sent[where]) != self.case.cache.ttl and not self.told(where, "marker_ttl_changed"):
                yield f"the lifetime of ours at {where}"

    def wanted(self):
        """Where ours is wanted: on blocks of ours with a scope, and at the end."""
        if not self.case.cache.enabled:
            return
        for index, block in enumerate(self.case.system):
            alone = end_of(self.case.messages) is None and self.planned.automatic is not None
            if isinstance(block, Block) and block.scope is not None and not alone:
                yield f"system[{index}]"
        end = end_of(self.case.messages)
        if end is not None and self.planned.automatic is None:
            yield end

    def useless(self):
        """Ours that the model does not cache, and any such marker that is not told."""
        scale = 13 if self.case.model.tokenizer == 2 else 10
        for point in self.planned.breakpoints:
            below = point.tokens * scale < self.case.model.min_cache * 10
            if below != point.below_minimum or below != self.told(point.at, "prefix_below_minimum"):
                yield f"{point.at} is told wrong"
            if point.sent != (point.at in self.sent) or (below and point.at in self.ours):
                yield f"{point.at} is sent wrong"

    def faults(self):
        rows = [point.at for point in self.planned.breakpoints if point.sent]
        problems = [*self.breaches(), *self.untold(), *self.useless()]
        if rows != list(self.sent):
            problems.append(f"breakpoints {rows}, markers {list(self.sent)}")
        for before, after in zip(
            (self.case.tools, self.case.system, self.case.messages),
            (self.planned.tools, self.planned.system, self.planned.messages),
            strict=True,
        ):
            if bare(before) != bare(after):
                problems.append("more than markers was changed")
        return problems

    def situations(self):
        """The interesting things that this case has, so that a run can tell that it saw them all."""
        case_, messages = self.case, " ".join(notice.message for notice in self.planned.notices)
        theirs = [row for row in self.theirs.items() if row[0] != "cache_control"]
        ends = sorted(where for where in self.ours if where.startswith("messages"))
        named = {
            "more than four of the caller's": len(theirs) > 4 and case_.callers,
            "automatic behind four": len(theirs) >= 4 and self.told("cache_control", "marker_dropped"),
            "automatic kept": self.planned.automatic is not None,
            "automatic moved": self.told("cache_control", "marker_moved"),
            "automatic lowered": self.told("cache_control", "marker_ttl_changed"),
            "automatic of another lifetime": "marker of another lifetime" in messages,
            "automatic at a marked end": "The last block carries a marker already" in messages,
            "automatic with nowhere to stand": "No block of the request takes a marker" in messages,
            "order of lifetimes": "may not follow" in messages,
            "an hour refused": "takes no lifetime of 1h" in messages,
            "ours lowered for the provider": "takes no more for this model" in messages,
            "ours adapted to the caller's": "to agree with the caller's" in messages,
            "an hour sent on bedrock": case_.provider == "bedrock" and "1h" in map(lasts, self.sent.values()),
            "scope refused": "only to the first-party API" in messages,
            "scope unknown": "scope is one of" in messages,
            "scope sent": any("scope" in marker for marker in self.sent.values()),
            "beta value left out": any(beta not in self.planned.betas for beta in case_.betas),
            "unknown kind": "does not know a cache marker of this kind" in messages,
            "moved from a place that takes none": "may stand here: it was moved" in messages,
            "dropped from a place that takes none": "no earlier place is free" in messages,
            "within a block": any(where.count("content") > 1 or "source" in where for where in self.sent),
            "ours below the minimum": any(not point.sent for point in self.planned.breakpoints),
            "the caller's below the minimum": any(p.sent and p.below_minimum for p in self.planned.breakpoints),
            "reached by the later tokenizer": any(
                not p.below_minimum and p.tokens < case_.model.min_cache for p in self.planned.breakpoints
            ),
            "ours gave way": "gave way" in messages,
            "two of ours in the conversation": len(ends) == 2,
            "ours moved before a changing block": "our marker belongs on" in messages,
            "nothing before a changing block": "nothing stands before it" in messages,
            "the caller's on a changing block": "its marker is never read" in messages,
            "all of the caller's refused": not case_.callers and bool(self.theirs),
            "caching off": not case_.cache.enabled,
            "four sent": len(self.sent) == 4,
            "none sent": not self.sent,
            **{f"provider {name}": case_.provider == name for name in PROVIDERS},
            "a model that has no hour": not takes_an_hour("bedrock", case_.model.id),
        }
        return {name: int(there) for name, there in named.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_become_legal_ones_and_nothing_is_silent(seed):
    random, seen = Random(seed), Counter()  # noqa: S311 - for chance, not for secrets
    for _ in range(REQUESTS_PER_SEED):
        given_case = case(random)
        before = copy.deepcopy(given_case)
        outcome = Outcome(given_case)
        assert outcome.faults() == [], given_case
        assert given_case == before
        seen.update(outcome.situations())
    assert [name for name, count in seen.items() if count == 0] == []


@given(st.randoms(use_true_random=False))
def test_every_plan_is_legal_tells_what_it_did_and_repeats_itself(random):
    outcome = Outcome(case(random))
    assert outcome.faults() == []
    assert outcome.case.planned() == outcome.planned


@given(st.randoms(use_true_random=False))
def test_a_plan_of_a_plan_is_the_same_plan(random):
    first = case(random)
    once = first.planned()
    twice = plan_markers(
        once.tools,
        once.system,
        once.messages,
        cache=CacheOptions(enabled=False, scope_on_wire=first.cache.scope_on_wire),
        provider=first.provider,
        model=first.model,
        automatic=once.automatic,
    )
    assert (twice.tools, twice.system, twice.messages) == (once.tools, once.system, once.messages)
    assert twice.automatic == once.automatic
    assert {notice.code for notice in twice.notices} <= {"prefix_below_minimum"}


def said(random, role, count):
    return {"role": role, "content": [{"type": "text", "text": f"{role} {random.random()}"} for _ in range(count)]}


@given(
    st.randoms(use_true_random=False),
    st.lists(st.tuples(st.integers(1, 45), st.integers(1, 25)), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)
def test_every_turn_of_a_conversation_reads_what_the_turn_before_it_wrote(random, turns, own, counted):
    cache, messages, written, before = PromptCache(minimum=1), [said(random, "user", 1)], 0, None
    model = replace(MODELS[0], min_cache=0)
    for answer, question in [(0, 0), *turns]:
        if answer:
            messages = [*messages, said(random, "assistant", answer), said(random, "user", question)]
        planned = plan_markers(
            [],
            [Block("S.", "org", ("intro",), ())],
            messages,
            cache=CacheOptions(),
            provider="anthropic",
            model=model,
            automatic={"type": "ephemeral"} if own else None,
            before=before if counted else None,
        )
        body = {"model": model.id, "system": list(planned.system), "messages": list(planned.messages)}
        body |= {"cache_control": planned.automatic} if own else {}
        assert cache.use(body)["cache_read_input_tokens"] == written
        written, before = prefixes(body)[-1].tokens, len(messages)
