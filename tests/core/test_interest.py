"""Where a footprint would change."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.core.footprint import FolderMark, Footprint, Stamp
from app.core.interest import Place, interests, shape


def folder(path: str, *names: str, listing: tuple[str, ...] | None = None, inode: int = 1) -> FolderMark:
    entries = tuple((name, "directory") for name in names)
    return FolderMark(path, Stamp(7, inode, 0, 0, 0), settled=True, entries=entries, names=listing)


REPOSITORY = Footprint(
    folders=(
        folder("/"),
        folder("/home", inode=2),
        folder("/home/p", ".git", "CLAUDE.md", inode=3),
        folder("/home/p/.claude", "rules", inode=4),
        folder("/home/p/.claude/rules", listing=(), inode=5),
    )
)


def test_folders_belong_to_the_repository_that_holds_them_and_the_rest_to_the_drive() -> None:
    roots = interests(REPOSITORY)
    assert {root: sorted(place.inode for place in found.places) for root, found in roots.items()} == {
        "/": [1, 2],
        "/home/p": [3, 4, 5],
    }


def test_a_repository_within_another_is_a_root_of_its_own() -> None:
    inner = folder("/home/p/inner", ".git", inode=6)
    roots = interests(Footprint(folders=(*REPOSITORY.folders, inner)))
    assert roots["/home/p/inner"].places == {Place("/home/p/inner", 7, 6)}


def test_where_git_was_looked_for_in_vain_there_is_no_root() -> None:
    mark = FolderMark("/w", Stamp(7, 1, 0, 0, 0), settled=True, entries=((".git", "absent"),))
    assert set(interests(Footprint(folders=(mark,)))) == {"/"}


def test_folders_that_are_not_there_are_no_places() -> None:
    assert interests(Footprint(folders=(FolderMark("/gone", None, settled=False, entries=()),))) == {}


def test_drives_of_windows_are_roots() -> None:
    assert set(interests(Footprint(folders=(folder("C:\\w"), folder("D:\\w"))))) == {"C:\\", "D:\\"}


def test_names_that_were_looked_for_are_of_interest_and_so_are_the_folders_themselves() -> None:
    found = interests(REPOSITORY)
    assert found["/"].paths == {"/", "/home"}
    assert found["/home/p"].paths == {
        *("/home/p", "/home/p/.git", "/home/p/CLAUDE.md"),
        *("/home/p/.claude", "/home/p/.claude/rules"),
    }


def test_names_in_the_top_folder_have_one_separator() -> None:
    assert "/CLAUDE.md" in interests(Footprint(folders=(folder("/", "CLAUDE.md"),)))["/"].paths
    assert "C:\\CLAUDE.md" in interests(Footprint(folders=(folder("C:\\", "CLAUDE.md"),)))["C:\\"].paths


def test_any_name_counts_in_a_folder_that_was_listed() -> None:
    assert interests(REPOSITORY)["/home/p"].listings == {"/home/p/.claude/rules"}


MARKS = st.builds(
    FolderMark,
    st.sampled_from(["/p", "/p/a", "/q"]),
    st.none() | st.builds(Stamp, st.just(7), st.integers(1, 2), st.just(0), st.integers(1, 2), st.just(0)),
    settled=st.booleans(),
    entries=st.lists(
        st.tuples(st.sampled_from([".git", "x"]), st.sampled_from(["absent", "file", "directory"])), max_size=2
    ).map(tuple),
    names=st.none() | st.just(()),
)
FOOTPRINTS = st.lists(MARKS, max_size=2, unique_by=lambda mark: mark.path).map(
    lambda marks: Footprint(folders=tuple(marks))
)


@given(FOOTPRINTS, FOOTPRINTS)
def test_footprints_of_one_shape_have_the_same_interests(one: Footprint, other: Footprint) -> None:
    if shape(one) == shape(other):
        assert interests(one) == interests(other)


@given(FOOTPRINTS)
def test_when_something_was_last_written_is_no_part_of_the_shape(one: Footprint) -> None:
    later = [replace(mark, stamp=mark.stamp and mark.stamp._replace(modified=9)) for mark in one.folders]
    assert shape(Footprint(folders=tuple(later))) == shape(one)
