import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.prefix import common
from app.core.sent import from_values, lightened, sent, to_values
from tests.core.raw_requests import LONG, REQUESTS, said, text

SECTIONS = {"system[0]": (("intro", 3), ("end", 2)), "system[1]": (("more", 4),)}


def body(*texts):
    return {
        "model": "m",
        "tools": [{"name": "Read"}],
        "system": [text("intro", LONG), text("more")],
        "messages": said(*texts),
    }


SENT = st.builds(
    sent,
    REQUESTS,
    st.integers(0, 9),
    started=st.none() | st.floats(0, 1e9),
    context_messages=st.integers(0, 2),
    sections=st.just({}) | st.just(SECTIONS),
    left_out=st.booleans(),
)


@given(SENT, st.integers(0, 30))
def test_what_is_stored_is_read_again(one, limit):
    for each in (one, lightened(one, limit)):
        assert from_values(json.loads(json.dumps(to_values(each)))) == each
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301 - our own


@pytest.mark.parametrize("values", [{}, {**to_values(sent(body("a"), 0)), "segments": [{"digest": "x"}]}])
def test_what_was_not_stored_is_refused(values):
    with pytest.raises((KeyError, ValueError)):
        from_values(values)


@given(SENT, st.integers(0, 30))
def test_no_more_text_is_kept_than_there_is_room_for(one, limit):
    light = lightened(one, limit)
    assert sum(len(segment.text or "") for segment in light.segments) <= limit
    assert common(one.segments, light.segments) == len(one.segments)
    kept = ("at", "area", "name", "tokens", "digest", "chain", "ttl", "scope", "role", "markers")
    for old, new in zip(one.segments, light.segments, strict=True):
        assert all(getattr(old, name) == getattr(new, name) for name in kept)
        assert new.text in {old.text, None}


def test_texts_are_kept_in_wire_order_and_those_that_do_not_fit_go():
    one = sent(body("a", "b" * 50, "c"), 0)
    assert [segment.text for segment in lightened(one, 26).segments] == [
        '{"name":"Read"}',
        "intro",
        "more",
        "a",
        None,
        "c",
    ]


def test_a_request_that_is_short_stays_as_it_is():
    one = sent(body("a"), 0)
    assert lightened(one) is one


def test_what_was_lightened_is_lightened_again_without_loss():
    one = sent(body("a"), 0, sections=SECTIONS)
    once, twice, at_once = lightened(one, 20), lightened(lightened(one, 20), 1), lightened(one, 1)
    assert list(once.runs) == ["system[1]"]
    assert sorted(twice.runs) == ["system[0]", "system[1]"]
    assert twice.runs == at_once.runs


def test_a_request_is_marked_by_what_its_messages_are_cached_under():
    efforts = {
        sent({**body("a"), **more}, 0).effort
        for more in ({}, {"thinking": {"type": "enabled"}}, {"tool_choice": {"type": "any"}}, {"effort": "low"})
    }
    assert len(efforts) == 4
    assert sent({**body("a"), "tool_choice": {"type": "auto"}, "thinking": None}, 0).effort in efforts
    assert sent({**body("a"), "max_tokens": 7}, 0).effort == sent(body("a"), 0).effort
