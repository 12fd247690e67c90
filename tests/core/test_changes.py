from dataclasses import replace

import pytest

from app.core.changes import SUBJECTS, Situation, changes, states
from app.core.facts import GitFacts, Message

GIT = GitFacts(branch="main", status="?? a.txt", log=("b2 second", "a1 first"))
NOW = Situation("2026-11-30", (("docs", "## docs\nBe brief."),), GIT)
PROMPT = (Message("user", "go on"),)
RESULT = ({"type": "tool_result", "tool_use_id": "1", "content": "x"},)


def told(known, now, messages=PROMPT):
    return {one.part: one.text for one in changes(known, now, messages)}


def test_what_is_known_already_is_not_told():
    assert told(states(NOW), NOW) == {}


def test_what_was_never_spoken_of_is_not_told():
    assert told({}, NOW) == {}
    assert states(Situation("2026-11-30")) == {"date": "2026-11-30"}


def test_a_late_text_stands_at_the_end_and_knows_what_it_told():
    (late,) = changes(states(NOW), replace(NOW, date="2026-12-01"), PROMPT)
    assert (late.at, late.part, late.subject, late.state) == (1, "date_change", "date", "2026-12-01")
    assert late.text.startswith("<system-reminder>\n")
    assert late.text.endswith("\n</system-reminder>")
    assert "2026-12-01" in late.text


def test_once_told_it_is_known():
    later = replace(NOW, date="2026-12-01", servers=(), git=replace(GIT, branch="other"))
    found = list(changes(states(NOW), later, PROMPT))
    assert [late.subject for late in found] == [row.name for row in SUBJECTS]
    assert told({late.subject: late.state for late in found}, later) == {}


def test_new_and_changed_servers_are_told_with_their_instructions_and_lost_ones_by_name():
    before = replace(NOW, servers=(("docs", "## docs\nBe brief."), ("gone", "## gone\nx"), ("kept", "## kept\nsame")))
    after = replace(NOW, servers=(("docs", "## docs\nBe long."), ("kept", "## kept\nsame"), ("new", "## new\nHello.")))
    text = told(states(before), after)["mcp_change"]
    assert "## docs\nBe long." in text
    assert "## new\nHello." in text
    assert "no longer hold: gone." in text
    assert "kept" not in text
    assert "Be brief" not in text


def test_of_two_servers_with_one_name_each_counts():
    both = replace(NOW, servers=(("docs", "## docs\nOne."), ("docs", "## docs\nTwo.")))
    text = told(states(both), replace(NOW, servers=(("docs", "## docs\nTwo."),)))["mcp_change"]
    assert "## docs\nTwo." in text
    assert "No longer connected" not in text
    assert told(states(both), replace(both, servers=both.servers[::-1])) == {}


@pytest.mark.parametrize(
    ("before", "after", "absent"),
    [((), (("a", "## a\nx"),), "No longer"), ((("a", "## a\nx"),), (), "These say")],
)
def test_nothing_is_said_of_what_did_not_happen(before, after, absent):
    text = told(states(replace(NOW, servers=before)), replace(NOW, servers=after))["mcp_change"]
    assert absent not in text


def test_a_repository_is_told_by_what_changed_in_it():
    known = states(NOW)
    branch = told(known, replace(NOW, git=replace(GIT, branch="feature")))["git_change"]
    assert "Current branch: feature" in branch
    assert "Status:" not in branch
    assert "Recent commits:" not in branch
    status = told(known, replace(NOW, git=replace(GIT, status="")))["git_change"]
    assert "Status:\n(clean)" in status
    assert "Current branch" not in status
    commits = told(known, replace(NOW, git=replace(GIT, log=("c3 third", *GIT.log))))["git_change"]
    assert "Recent commits:\nc3 third\n</system-reminder>" in commits


def test_commits_that_replaced_the_known_ones_are_told_as_far_as_they_are_shown():
    git = replace(GIT, log=tuple(f"{number} commit" for number in range(9)))
    text = told(states(NOW), replace(NOW, git=git))["git_change"]
    assert "Recent commits:\n0 commit\n1 commit\n2 commit\n3 commit\n4 commit\n</" in text


def test_a_repository_without_commits_or_branch_is_known_too():
    bare = replace(NOW, git=GitFacts(status=""))
    assert "Recent commits:\nb2 second" in told(states(bare), NOW)["git_change"]
    text = told(states(NOW), bare)["git_change"]
    assert "Current branch" not in text
    assert "Recent commits" not in text


@pytest.mark.parametrize("git", [None, GitFacts()])
def test_a_repository_that_was_not_looked_at_has_not_changed(git):
    assert told(states(NOW), replace(NOW, git=git)) == {}


@pytest.mark.parametrize("messages", [(), (Message("user", RESULT),), (Message("assistant", "I"),)])
def test_a_repository_is_not_told_while_the_agent_works_on_it(messages):
    later = replace(NOW, date="2026-12-01", git=replace(GIT, status=""))
    assert list(told(states(NOW), later, messages)) == ["date_change"]
