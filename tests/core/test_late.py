import pytest

from app.core.candidates import MemoryFile
from app.core.facts import Message
from app.core.late import Late, end, is_prompt, late_attachments, places
from app.core.levels import LEVELS

CWD = "/home/dev/p"


def user(content):
    return Message("user", content)


def assistant(content):
    return Message("assistant", content)


def call(number, **given):
    return {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": given}


def result(number):
    return {"type": "tool_result", "tool_use_id": f"t{number}", "content": "text"}


def placed(file, messages, cwd):
    (found,) = late_attachments([file], messages, cwd)
    return found


def brought(by="/home/dev/p/src/a.py", path="/home/dev/p/src/CLAUDE.md"):
    return MemoryFile(path, path, LEVELS[2], "text", "text", trigger=by)


@pytest.mark.parametrize(
    ("messages", "place"),
    [([], 0), ([user("a")], 1), ([user("a"), assistant("b")], 1), ([assistant("b")], 0)],
)
def test_the_end_is_before_an_answer_that_the_model_goes_on_with(messages, place):
    assert end(messages) == place


def test_the_user_speaks_or_a_tool_does():
    assert is_prompt([user("go")])
    assert is_prompt([user(({"type": "text", "text": "go"},))])
    assert not is_prompt([user((result(1),))])
    assert not is_prompt([assistant("done")])
    assert not is_prompt([])


@pytest.mark.parametrize("path", ["/home/dev/p/src/a.py", "src/a.py", "./src/../src/a.py"])
def test_an_attachment_stands_behind_the_result_of_the_call_that_touched_its_file(path):
    turns = [user("go"), assistant((call(1, file_path=path),)), user((result(1),)), assistant("done"), user("next")]
    assert placed(brought(), turns[:3], CWD).at == 3
    assert placed(brought(), turns, CWD).at == 3


def test_an_attachment_stands_behind_all_results_of_the_turn():
    turns = [
        user("go"),
        assistant((call(1, path="src/a.py"), call(2, path="src/b.py"))),
        user((result(1),)),
        user((result(2),)),
        assistant("done"),
    ]
    assert placed(brought(), turns, CWD).at == 4


@pytest.mark.parametrize(
    "turns",
    [
        [user("go")],
        [user("go"), assistant((call(1, path="src/other.py"),)), user((result(1),))],
        [user("go"), assistant(({"type": "tool_use", "id": "t1", "name": "x", "input": "src/a.py"},))],
        [user("go"), assistant((call(1, lines=3, path=["src/a.py"]),)), user((result(1),))],
    ],
)
def test_without_such_a_call_an_attachment_stands_at_the_end(turns):
    assert placed(brought(), turns, CWD).at == end(turns)


def test_an_attachment_that_nothing_touched_stands_at_the_end():
    assert placed(brought(by=None), [user("a"), user("b")], CWD).at == 2


def test_a_json_file_counts_two_units_per_token():
    assert placed(brought(path="/home/dev/p/src/x.json"), [], CWD).units_per_token == 2


def test_a_late_text_never_stands_between_a_call_and_its_result():
    turns = [user("go"), assistant((call(1, path="a"),)), user((result(1),)), assistant("done"), user("more")]
    found = places(turns, [Late(at, "x", f"t{at}") for at in range(7)])
    assert found == {0: ["t0"], 1: ["t1"], 3: ["t2", "t3"], 4: ["t4"], 5: ["t5", "t6"]}


def test_a_late_text_never_parts_the_fragments_of_one_answer():
    turns = [user("go"), assistant((call(1, path="a"),)), assistant((call(2, path="b"),)), user((result(1), result(2)))]
    assert places(turns, [Late(2, "x", "text")]) == {4: ["text"]}


def test_a_late_text_stands_before_an_answer_that_the_model_goes_on_with():
    assert places([user("go"), assistant("and")], [Late(9, "x", "text")]) == {1: ["text"]}


def test_ids_that_are_no_text_lead_nowhere():
    odd = [
        user("go"),
        assistant(({"type": "tool_use", "id": {}, "name": "R", "input": {"p": "src/a.py"}},)),
        user(({"type": "tool_result", "tool_use_id": [], "content": "x"},)),
    ]
    assert placed(brought(), odd, CWD).at == 3


def test_without_attachments_no_message_is_looked_at():
    assert list(late_attachments([], [user("a")], CWD)) == []
