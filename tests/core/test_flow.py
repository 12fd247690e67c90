import pytest

from app.core.facts import Content, Kind, Node
from app.core.flow import Look, Names, Read, WrongAnswerError, look, names, read

NODE, CONTENT, NAMES = Node(Kind.FILE, "/a"), Content(b"a"), ("a", "b")
QUESTIONS = [(look, Look, NODE), (read, Read, CONTENT), (names, Names, NAMES)]


@pytest.mark.parametrize(("ask", "question", "answer"), QUESTIONS)
def test_a_question_is_asked_and_its_answer_is_the_outcome(ask, question, answer):
    flow = ask("/a")
    assert next(flow) == question("/a")
    with pytest.raises(StopIteration) as ended:
        flow.send(answer)
    assert ended.value.value == answer


@pytest.mark.parametrize(("ask", "question", "answer"), QUESTIONS)
def test_an_answer_of_another_kind_is_refused(ask, question, answer):
    for other in (NODE, CONTENT, NAMES):
        if other != answer:
            flow = ask("/a")
            next(flow)
            with pytest.raises(WrongAnswerError, match="/a"):
                flow.send(other)
