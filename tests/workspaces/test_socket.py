"""What every kind of workspace answers about the same tree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.core.facts import Content, Kind, Node
from app.workspaces.inline import Binary, Text
from tests.workspaces.trees import FILES, KINDS, LIMIT, Laid, content

PLAIN = {path: content(file) for path, file in FILES.items() if isinstance(file, Text | Binary)}
READABLE = {path: data for path, data in PLAIN.items() if len(data) <= LIMIT}
DOCS = tuple(
    sorted(
        {path.removeprefix("docs/") for path in FILES if path.startswith("docs/") and path.count("/") == 1} | {"deep"}
    )
)
LINKS_TO_FILES = {
    "links/file": "CLAUDE.md",
    "links/chain": "CLAUDE.md",
    "links/absolute": "docs/deep/er/est.md",
    "links/below_link": "docs/deep/er/est.md",
    "links/up_from_link": "CLAUDE.md",
    "links/folder/a b.md": "docs/a b.md",
    "links/folder/deep/er/est.md": "docs/deep/er/est.md",
    "links/up/links/up/CLAUDE.md": "CLAUDE.md",
    "links/here/here/chain": "CLAUDE.md",
}
LINKS_TO_FOLDERS = {
    "links/folder": "docs",
    "links/slashed": "docs",
    "links/up": "",
    "links/here": "links",
    "links/empty": "empty",
}
LEADING_NOWHERE = {
    "links/dangling": "nowhere/deep.md",
    "links/dangling_absolute": "nowhere.md",
    "links/below_a_file": "CLAUDE.md/deep.md",
}
CIRCLES = ("links/self", "links/self_below", "links/ping", "links/pong", "links/to_loop")
MISSING = {
    "nothing.md": "nothing.md",
    "no/such/folder/x.md": "no/such/folder/x.md",
    "CLAUDE.md/below.md": "CLAUDE.md/below.md",
    "links/file/below.md": "CLAUDE.md/below.md",
    "links/folder/nothing.md": "docs/nothing.md",
    "empty/nothing.md": "empty/nothing.md",
    "claude.md": "claude.md",
    "docs/nul\0.md": "docs/nul\0.md",
    "docs/\udcff.md": "docs/\udcff.md",
    "docs/" + "n" * 300: "docs/" + "n" * 300,
    "deep/" * 3_000 + "x": "deep/" * 3_000 + "x",
}


@pytest.fixture(scope="module", params=sorted(KINDS))
def laid(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laid]:
    laid = KINDS[request.param](tmp_path_factory.mktemp("tree"))
    yield laid
    laid.workspace.close()


@pytest.mark.parametrize("path", PLAIN)
def test_a_file_stands_at_its_own_path_with_its_size(laid: Laid, path: str) -> None:
    assert laid.workspace.look(laid.at(path)) == Node(Kind.FILE, laid.at(path), len(PLAIN[path]))


@pytest.mark.parametrize("path", READABLE)
def test_a_file_reads_as_the_bytes_it_holds(laid: Laid, path: str) -> None:
    assert laid.workspace.read(laid.at(path)) == Content(READABLE[path])


@pytest.mark.parametrize(("path", "real"), LINKS_TO_FILES.items())
def test_a_way_through_links_ends_at_the_real_file(laid: Laid, path: str, real: str) -> None:
    assert laid.workspace.look(laid.at(path)) == Node(Kind.FILE, laid.at(real), len(PLAIN[real]))
    assert laid.workspace.read(laid.at(path)) == Content(PLAIN[real])


@pytest.mark.parametrize(("path", "real"), LINKS_TO_FOLDERS.items())
def test_a_link_to_a_folder_is_that_folder(laid: Laid, path: str, real: str) -> None:
    assert laid.workspace.look(laid.at(path)) == Node(Kind.DIRECTORY, laid.at(real))
    assert laid.workspace.names(laid.at(path)) == laid.workspace.names(laid.at(real))


@pytest.mark.parametrize(("path", "real"), LEADING_NOWHERE.items())
def test_a_link_that_leads_nowhere_dangles_where_it_would_lead(laid: Laid, path: str, real: str) -> None:
    assert laid.workspace.look(laid.at(path)) == Node(Kind.DANGLING, laid.at(real))
    assert laid.workspace.read(laid.at(path)) == Content(None, "not_found")


@pytest.mark.parametrize("path", CIRCLES)
def test_a_circle_of_links_dangles(laid: Laid, path: str) -> None:
    assert laid.workspace.look(laid.at(path)).kind is Kind.DANGLING
    assert laid.workspace.look(laid.at(path + "/below.md")).kind is Kind.MISSING
    assert laid.workspace.read(laid.at(path)) == Content(None, "not_found")
    assert laid.workspace.names(laid.at(path)) == ()


@pytest.mark.parametrize(("path", "real"), MISSING.items(), ids=[repr(path)[:40] for path in MISSING])
def test_what_is_not_there_is_missing_where_it_would_be(laid: Laid, path: str, real: str) -> None:
    assert laid.workspace.look(laid.at(path)) == Node(Kind.MISSING, laid.at(real))
    assert laid.workspace.read(laid.at(path)) == Content(None, "not_found")
    assert laid.workspace.names(laid.at(path)) == ()


def test_a_path_need_not_be_normal(laid: Laid) -> None:
    assert laid.workspace.look(laid.at("docs/.//../links/../CLAUDE.md")).real == laid.at("CLAUDE.md")
    assert laid.workspace.look(laid.at("docs/")) == Node(Kind.DIRECTORY, laid.at("docs"))
    assert laid.workspace.read(laid.at("no/such/../../CLAUDE.md")).data == PLAIN["CLAUDE.md"]


def test_a_relative_path_is_missing(laid: Laid) -> None:
    assert laid.workspace.look("CLAUDE.md").kind is Kind.MISSING
    assert laid.workspace.look("").kind is Kind.MISSING
    assert laid.workspace.names(".") == ()
    assert laid.workspace.read("app/errors.py") == Content(None, "not_found")


def test_a_file_over_the_limit_is_there_but_not_read(laid: Laid) -> None:
    assert laid.workspace.look(laid.at("links/large")).size == LIMIT + 1
    assert laid.workspace.read(laid.at("large.md")) == Content(None, "budget")
    assert laid.workspace.read(laid.at("links/large")) == Content(None, "budget")


def test_a_folder_is_not_read(laid: Laid) -> None:
    assert laid.workspace.read(laid.at("docs")) == Content(None, "is_directory")
    assert laid.workspace.read(laid.at("links/up")) == Content(None, "is_directory")


def test_a_folder_lists_its_names_by_code_point(laid: Laid) -> None:
    assert laid.workspace.names(laid.at("docs")) == DOCS
    assert laid.workspace.names(laid.at("")) == ("CLAUDE.md", "docs", "empty", "full.md", "large.md", "links")


def test_links_are_listed_wherever_they_lead(laid: Laid) -> None:
    links = sorted(path.removeprefix("links/") for path in FILES if path.startswith("links/"))
    assert laid.workspace.names(laid.at("links")) == tuple(links)


def test_an_empty_folder_is_a_folder_without_names(laid: Laid) -> None:
    assert laid.workspace.look(laid.at("empty")) == Node(Kind.DIRECTORY, laid.at("empty"))
    assert laid.workspace.names(laid.at("empty")) == ()


def test_a_file_has_no_names(laid: Laid) -> None:
    assert laid.workspace.names(laid.at("CLAUDE.md")) == ()


def test_the_real_path_of_a_real_path_is_itself(laid: Laid) -> None:
    for path in (*PLAIN, *LINKS_TO_FILES, *LINKS_TO_FOLDERS, *MISSING):
        real = laid.workspace.look(laid.at(path)).real
        assert laid.workspace.look(real).real == real


def test_answers_do_not_depend_on_what_was_asked_before(laid: Laid) -> None:
    paths = [laid.at(path) for path in (*LINKS_TO_FILES, *LEADING_NOWHERE, *CIRCLES, *MISSING)]
    forwards = [laid.workspace.look(path) for path in paths]
    backwards = [laid.workspace.look(path) for path in reversed(paths)]
    assert forwards == backwards[::-1]


def test_a_workspace_may_be_closed_twice(laid: Laid) -> None:
    assert laid.workspace.read(laid.at("CLAUDE.md")).data == PLAIN["CLAUDE.md"]
    laid.workspace.close()
    laid.workspace.close()
