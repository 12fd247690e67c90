import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.attachments import Attached
from app.core.budget import FAILURES_TO_OPEN, Breaker
from app.core.compaction import Attempts, Success, fixed_parts, hopeless, outcome
from app.core.facts import CacheOptions, McpServer, TokenOptions
from app.core.memory import Memory
from app.core.summary import Failure
from app.core.tokens import Part
from tests.core.assembling import asked, assembled, conversation, memory_file

FIXED = (Part("system:env_info", 5_000), Part("memory:/w/CLAUDE.md", 60_000), Part("tool:Read", 115_000))
TALK = (Part("messages[0]", 2_000), Part("attachment:/w/a/CLAUDE.md", 900_000), Part("usage_difference", -400))


# --- parts that stay


def test_the_fixed_parts_are_those_in_front_of_the_conversation_the_largest_first():
    beside = (Part("mcp:docs", 7), Part("user_context", 7), Part("tool_overhead", 346), Part("tool:Empty", 0))
    names = ["tool:Read", "memory:/w/CLAUDE.md", "system:env_info", "tool_overhead", "mcp:docs", "user_context"]
    rows = (*TALK, *FIXED, *beside)
    assert [part.name for part in fixed_parts(rows)] == names


@pytest.mark.parametrize("layout", ["classic", "late"])
@pytest.mark.parametrize("method", ["rough", "estimate"])
def test_all_that_stands_in_front_of_the_conversation_is_fixed_and_nothing_else(layout, method):
    request = asked(
        messages=conversation("a", "b", "c"),
        tools=({"name": "Read", "input_schema": {}},),
        mcp_servers=(McpServer("docs", "connected", "Search first."),),
        cache=CacheOptions(layout=layout),
        tokens=TokenOptions(method=method),
    )
    memory = Memory(files=(memory_file("/p/CLAUDE.md", "Use tabs."),))
    attached = Attached(files=(memory_file("/p/a/CLAUDE.md", "Nested."),))
    found = assembled(request=request, memory=memory, attached=attached).tally
    names = {part.name for part in fixed_parts(found.count.parts)}
    assert names == {name for name, tokens in found.rows.fixed if tokens > 0}
    assert {"tool:Read", "mcp:docs", "memory:/p/CLAUDE.md", "user_context"} < names
    assert ("tool_overhead" in names) is (method == "estimate")


def test_the_system_prompt_of_a_raw_request_is_fixed():
    assert fixed_parts((Part("system[0]", 5), Part("messages[0]", 9))) == (Part("system[0]", 5),)


def test_compaction_is_hopeless_when_the_fixed_parts_alone_reach_the_threshold():
    found = hopeless(FIXED + TALK, 180_000)
    assert found == Failure(
        "fixed_parts_too_large",
        "Compaction cannot help: it starts at 180,000 tokens, and 180,000 stay whatever is compacted: "
        "tool:Read 115,000, memory:/w/CLAUDE.md 60,000, system:env_info 5,000. "
        "Make these smaller, or use a model with a larger window.",
        fixed_parts(FIXED),
    )


def test_compaction_is_not_hopeless_below_the_threshold():
    assert hopeless(FIXED + TALK, 180_001) is None
    assert hopeless(TALK, 1) is None


def test_many_parts_are_counted_rather_than_named():
    rows = tuple(Part(f"tool:t{number}", 10 + number) for number in range(8))
    found = hopeless(rows, 1)
    assert found is not None
    assert "tool:t7 17, tool:t6 16, tool:t5 15, tool:t4 14, tool:t3 13, 3 more with 33." in found.message
    assert len(found.parts) == 8


# --- usefulness


def test_a_summary_that_frees_enough_is_a_success():
    assert outcome(170_000, 30_000, 167_000, FIXED[:1]) == Success(140_000)


def test_a_summary_that_leaves_the_conversation_at_the_threshold_did_not_help_and_the_fixed_parts_are_blamed():
    assert outcome(185_000, 182_000, 167_000, FIXED) == Failure(
        "did_not_help",
        "Compaction did not help: 182,000 tokens are in use after it, 185,000 before, and compaction starts at "
        "167,000. 180,000 stay whatever is compacted: tool:Read 115,000, memory:/w/CLAUDE.md 60,000, "
        "system:env_info 5,000. Make these smaller, or use a model with a larger window.",
        fixed_parts(FIXED),
    )


@pytest.mark.parametrize(("after", "helped"), [(90_500, True), (90_501, False), (95_000, False), (120_000, False)])
def test_a_summary_must_free_a_tenth_of_what_it_replaces(after, helped):
    found = outcome(100_000, after, 167_000, FIXED[:1])
    assert isinstance(found, Success) is helped


def test_a_summary_that_is_too_long_is_itself_to_blame():
    found = outcome(100_000, 120_000, 167_000, FIXED[:1])
    assert isinstance(found, Failure)
    assert found.message == (
        "Compaction did not help: of 95,000 tokens that it was to replace it freed 0. "
        "5,000 stay whatever is compacted: system:env_info 5,000. "
        "Most is the summary and the messages that stay behind it: make the longer of them shorter."
    )


def test_without_fixed_parts_only_the_summary_can_be_to_blame():
    found = outcome(0, 0, 167_000, ())
    assert isinstance(found, Failure)
    assert found.message.endswith(
        "freed 0. Most is the summary and the messages that stay behind it: make the longer of them shorter."
    )


TOKENS = st.integers(0, 300_000)


@given(TOKENS, TOKENS, st.integers(1, 300_000), st.lists(st.builds(Part, st.sampled_from(["tool:a", "x"]), TOKENS)))
def test_no_success_is_at_the_threshold_or_frees_nothing(before, after, threshold, parts):
    found = outcome(before, after, threshold, parts)
    if isinstance(found, Success):
        assert after < threshold
        assert found.freed == before - after > 0
    else:
        assert found.parts == fixed_parts(parts)


@given(TOKENS, st.integers(1, 300_000), st.lists(st.builds(Part, st.just("tool:a"), TOKENS), max_size=4))
def test_no_compaction_that_was_hopeless_ends_in_success(before, threshold, parts):
    fixed = sum(part.tokens for part in parts)
    if hopeless(parts, threshold) is not None:
        assert isinstance(outcome(before, fixed + 1, threshold, parts), Failure)


# --- attempts


def run(outcomes, trigger="automatic"):
    attempts = Attempts()
    for now, ended in enumerate(outcomes):
        attempts = attempts.after(ended, trigger, float(now))
    return attempts


F, S, A = "failed", "ok", "aborted"


@pytest.mark.parametrize(
    ("outcomes", "state", "failures", "opened_at"),
    [
        ([], "closed", 0, None),
        ([F, F], "closed", 2, None),
        ([F, F, S, F, F, F], "open", 3, 5.0),
        ([F, F, A, F], "open", 3, 3.0),
        ([F, F, F, A], "open", 3, 2.0),
        ([F, F, F, S], "closed", 0, None),
    ],
)
def test_the_third_failure_in_a_row_opens_the_breaker_and_a_success_closes_it(outcomes, state, failures, opened_at):
    assert run(outcomes) == Attempts(Breaker(state, failures), opened_at)


def test_an_open_breaker_lets_only_a_person_try():
    attempts = run([F] * FAILURES_TO_OPEN)
    assert not attempts.allow("automatic", 1e9, cool_down=0)
    assert attempts.allow("manual", 3.0, cool_down=0)
    assert run([]).allow("automatic", 0.0, cool_down=0)


COOLING = [(1.0, False), (61.9, False), (62.0, True), (1e9, True), (-57.9, False), (-1e9, True)]


@pytest.mark.parametrize(("now", "allowed"), COOLING)
def test_after_the_cool_down_one_more_attempt_is_allowed(now, allowed):
    attempts = run([F] * FAILURES_TO_OPEN)
    assert attempts.allow("automatic", now, cool_down=60) is allowed
    assert attempts.at(now, 60).breaker.state == ("half_open" if allowed else "open")


def test_an_attempt_after_the_cool_down_closes_the_breaker_or_opens_it_anew():
    attempts = run([F] * FAILURES_TO_OPEN)
    assert attempts.after(S, "automatic", 100.0) == Attempts()
    again = attempts.after(F, "automatic", 100.0)
    assert again == Attempts(Breaker("open", 4), 100.0)
    assert not again.allow("automatic", 101.0, 60)
    assert attempts.after(A, "automatic", 100.0).allow("automatic", 100.0, 60)


def test_a_breaker_that_was_opened_nobody_knows_when_stays_open():
    assert not Attempts(Breaker("open", 3)).allow("automatic", 1e9, cool_down=60)


def test_a_persons_failures_do_not_count_and_their_success_does():
    assert run([F] * 9, "manual") == Attempts()
    assert run([F] * FAILURES_TO_OPEN).after(S, "manual", 9.0) == Attempts()


@given(st.lists(st.sampled_from([F, S, A]), max_size=20))
def test_automatic_attempts_are_refused_exactly_after_three_failures_without_a_success(outcomes):
    since = list(outcomes)
    while S in since:
        since = since[since.index(S) + 1 :]
    assert run(outcomes).allow("automatic", 99.0, cool_down=0) is (since.count(F) < FAILURES_TO_OPEN)
