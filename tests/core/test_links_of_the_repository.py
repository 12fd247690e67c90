"""A link that came with a clone and leads out of it is no way to import without consent; a person's own link is."""

from __future__ import annotations

import pytest

from app.core.facts import GitRoots
from app.core.flow import WrongAnswerError, carries
from app.core.skill_files import find_skills
from app.core.style_files import find_style
from app.workspaces.inline import Link
from tests.core.tree import PROJECT, Tree, project

SECRET = "/home/dev/.secret"
ROOTS = GitRoots(PROJECT)
PLACES = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", ".claude/rules/a.md", ".claude/rules/team/a.md")


def linked(place: str, *, carried: bool = True, roots: GitRoots | None = ROOTS, target: str = SECRET) -> Tree:
    files = {place: Link(target), SECRET: "SECRET", f"{PROJECT}/docs/a.md": "DOCS"}
    kept = frozenset({f"{PROJECT}/{place}"} if carried else ())
    return project(files, roots=roots, carried=kept)


@pytest.mark.parametrize("place", PLACES)
def test_a_link_of_the_repository_out_of_it_waits_for_consent(place: str) -> None:
    tree = linked(place)
    (row,) = (row for row in tree.load().rows if row.path == f"{PROJECT}/{place}")
    assert (row.verdict, row.reason) == ("withheld", "external")
    assert "memory.allow_external_includes" in (row.hint or "")
    assert tree.load().files == ()
    assert [file.content for file in tree.asked(allow_external_includes=True).load().files] == ["SECRET"]


@pytest.mark.parametrize("place", PLACES)
def test_a_persons_own_link_may_lead_anywhere(place: str) -> None:
    assert [file.content for file in linked(place, carried=False).load().files] == ["SECRET"]


@pytest.mark.parametrize("place", PLACES)
def test_a_link_of_the_repository_may_lead_to_its_own_files(place: str) -> None:
    assert [file.content for file in linked(place, target=f"{PROJECT}/docs/a.md").load().files] == ["DOCS"]


@pytest.mark.parametrize("roots", [None, GitRoots(PROJECT, bare=True), GitRoots("/elsewhere")])
def test_where_there_is_no_checkout_nothing_is_carried(roots: GitRoots | None) -> None:
    assert [file.content for file in linked("CLAUDE.md", roots=roots).load().files] == ["SECRET"]


def test_a_nested_file_is_judged_alike() -> None:
    tree = linked("sub/CLAUDE.md")
    assert tree.brought(f"{PROJECT}/sub/a.c") == []
    assert linked("sub/CLAUDE.md", carried=False).brought(f"{PROJECT}/sub/a.c") != []


def test_a_style_that_is_such_a_link_is_none() -> None:
    for carried in (True, False):
        tree = linked(".claude/output-styles/Own.md", carried=carried)
        style, _ = tree.drive(find_style("Own", tree.plan(), {}))
        assert (style is None) == carried


def test_a_skill_that_is_such_a_link_is_told_and_not_listed() -> None:
    for carried in (True, False):
        tree = linked(".claude/skills/own/SKILL.md", carried=carried)
        skills, notices = tree.drive(find_skills(tree.plan()))
        assert ("SECRET" in repr(skills)) == (not carried)
        assert [notice.code for notice in notices] == (["skill_skipped"] if carried else [])


def test_an_answer_of_another_kind_is_a_fault() -> None:
    flow = carries("/a", "/")
    next(flow)
    with pytest.raises(WrongAnswerError):
        flow.send(())


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md"])
def test_a_skill_in_git_metadata_is_told_and_not_read(name: str) -> None:
    files = {".claude/skills/own": Link(f"{PROJECT}/.git/own"), f".git/own/{name}": "SECRET"}
    tree = project(files)
    skills, notices = tree.drive(find_skills(tree.plan()))
    assert "SECRET" not in repr(skills)
    assert [notice.code for notice in notices] == ["skill_skipped"]
