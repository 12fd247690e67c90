import pytest

from app.core.estimate import estimate
from app.core.facts import Message
from app.core.measures import TOOL_OVERHEAD, Estimated, Rough
from app.core.tokens import rough

TOOL = {"name": "Read", "input_schema": {"type": "object"}}
BLOCK = {"type": "text", "text": "What is this? " * 20}


def test_rough_texts_add_up_to_the_rounded_count_of_them_all():
    texts = [("abc", 4), ("de", 4), ("f" * 7, 4)]
    assert sum(Rough().texts(texts)) == rough("abcdefffffff")
    assert Rough().texts([("{}", 2)]) == (1,)


@pytest.mark.parametrize("tokenizer", [1, 2])
def test_estimates_go_by_the_generation(tokenizer):
    measure = Estimated(tokenizer)
    assert measure.texts([("one two", 4), ("three", 4)]) == (
        estimate("one two", tokenizer),
        estimate("three", tokenizer),
    )
    assert measure.block(BLOCK) == measure.message(Message("user", (BLOCK,))) == estimate(BLOCK["text"], tokenizer)
    assert measure.tool(TOOL) > 0


def test_only_an_estimate_counts_what_the_api_adds_for_tools():
    assert (Rough().overhead, Estimated(1).overhead) == (0, TOOL_OVERHEAD)
    assert (Rough().method, Estimated(1).method) == ("rough", "estimate")


def test_rough_pieces_are_counted_by_length():
    measure = Rough()
    assert measure.block(BLOCK) == measure.message(Message("user", (BLOCK,))) == rough(BLOCK["text"])
    assert measure.tool(TOOL) > 0
