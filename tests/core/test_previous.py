from dataclasses import replace

from app.core.costs import priced
from app.core.facts import Message, Usage
from app.core.previous import Previous, Turn, previous
from app.core.sent import sent
from app.data.tables import load_models

MARK = {"type": "ephemeral"}
MODEL = "claude-sonnet-4-5"
PRICES = priced({MODEL: 3.0}, "EUR", load_models())


def request(*texts):
    found = [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(texts)]
    found[-1] = {**found[-1], "content": [{"type": "text", "text": texts[-1], "cache_control": MARK}]}
    return sent({"model": MODEL, "messages": found}, 10)


def messages(*texts, usage=None):
    roles = ("user", "assistant")
    return tuple(
        Message(roles[at % 2], text, usage=usage if at == len(texts) - 2 else None) for at, text in enumerate(texts)
    )


LONG = "x" * 400
FIRST = Turn(request(LONG), 1, 1)
SECOND = request(LONG, "b", LONG)


def told(last, now, conversation):
    return previous(last, now, conversation, MODEL, PRICES)


def test_without_a_request_before_there_is_nothing_to_say():
    assert told(None, SECOND, messages(LONG)) == Previous()
    assert Previous().cause is None


def test_what_can_be_read_is_told_and_costs_nothing():
    found = told(FIRST, SECOND, messages(LONG, "b", LONG))
    assert found.comparison.hit is True
    assert (found.cause, found.agreed, found.cost.amount, found.cost.currency) == (None, None, 0.0, "EUR")


def test_usage_is_held_against_what_was_foreseen_of_the_request_before():
    second = Turn(SECOND, 3, 3, told(FIRST, SECOND, messages(LONG, "b", LONG)).comparison)
    third = request(LONG, "b", LONG, "d", LONG)
    nothing, enough = Usage(input_tokens=900), Usage(input_tokens=9, cache_read_input_tokens=100)
    bad = told(second, third, messages(LONG, "b", LONG, "d", LONG, usage=nothing))
    assert (bad.agreed, bad.read_tokens, bad.cause) == (False, 0, "server_side_or_unknown")
    good = told(second, third, messages(LONG, "b", LONG, "d", LONG, usage=enough))
    assert (good.agreed, good.read_tokens, good.cause) == (True, 100, None)


def test_usage_of_another_conversation_says_nothing():
    other = request("y" * 400, "b", LONG)
    found = told(FIRST, other, messages("y" * 400, "b", LONG, usage=Usage(input_tokens=9)))
    assert (found.agreed, found.read_tokens, found.cause) == (None, None, "messages_rewritten")
    assert told(replace(FIRST, sent=SECOND), request(LONG), messages(LONG)).read_tokens is None
