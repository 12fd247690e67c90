import pytest

from app.core.facts import Kind, Node
from app.core.flow import Look
from app.core.pauses import at_once, in_steps


def counting(to):
    for _ in range(to):
        yield
    return to


def test_work_in_steps_asks_a_question_at_each_pause():
    flow = in_steps(counting(2), "/a")
    assert next(flow) == Look("/a")
    assert flow.send(Node(Kind.FILE, "/a")) == Look("/a")
    with pytest.raises(StopIteration) as ended:
        flow.send(Node(Kind.FILE, "/a"))
    assert ended.value.value == 2


def test_work_at_once_comes_to_the_same():
    assert at_once(counting(3)) == 3
