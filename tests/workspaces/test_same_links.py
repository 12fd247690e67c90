"""Laws: a tree in a request and the same tree on disk resolve as the operating system does."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.facts import Kind
from app.workspaces.inline import InlineFile, InlineWorkspace, Link, Text, TreeConflictError
from tests.workspaces.trees import LIMIT, POSIX, local

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=4).map("/".join)
TREES = st.dictionaries(PATHS, st.one_of(st.just(Text("x")), st.builds(Link, TARGETS)), max_size=8)


def laid(files: dict[str, InlineFile], folder: Path) -> dict[str, InlineFile]:
    """Writes what fits into the tree, and answers that."""
    fitting: dict[str, InlineFile] = {}
    for path, file in sorted(files.items(), key=lambda item: item[0].count("/")):
        place = folder / path
        if any(path.startswith(f"{other}/") for other in fitting):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(place):
            continue
        fitting[path] = file
        if isinstance(file, Link):
            place.symlink_to(file.target)
        else:
            place.write_text("x")
    return fitting


def kind_on_disk(path: Path) -> Kind:
    if path.is_dir():
        return Kind.DIRECTORY
    if path.is_file():
        return Kind.FILE
    return Kind.DANGLING if path.is_symlink() else Kind.MISSING


@settings(max_examples=100, deadline=None)
@given(files=TREES, asked=st.lists(PATHS, min_size=1, max_size=6))
def test_every_path_resolves_as_on_disk(files: dict[str, InlineFile], asked: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve() / "x" / "y" / "z" / "root"  # deep enough for every ".."
        folder.mkdir(parents=True)
        fitting = laid(files, folder)
        here = local(Path(made).resolve())
        inline = InlineWorkspace({f"{folder}/{path}": file for path, file in fitting.items()}, None, POSIX, LIMIT)
        for path in (*asked, *fitting):
            place = folder / path
            kind = kind_on_disk(place)
            assert here.look(str(place)).kind is kind
            if fitting:
                assert inline.look(str(place)) == here.look(str(place))
            if kind in (Kind.FILE, Kind.DIRECTORY):
                assert here.look(str(place)).real == str(place.resolve())


def tree_or_conflict(files: dict[str, InlineFile]) -> InlineWorkspace | TreeConflictError:
    try:
        return InlineWorkspace(files, None, POSIX, LIMIT)
    except TreeConflictError as conflict:
        return conflict


@settings(deadline=None)
@given(
    files=st.dictionaries(
        st.lists(st.sampled_from(["a", "b"]), max_size=4).map(lambda n: "/" + "/".join(n)),
        st.one_of(st.builds(Text, st.sampled_from(["x", "y"])), st.builds(Link, TARGETS)),
        max_size=8,
    ),
)
def test_any_files_make_a_tree_or_are_refused_by_name(files: dict[str, InlineFile]) -> None:
    made = tree_or_conflict(files)
    if isinstance(made, TreeConflictError):
        assert made.path in files
        return
    for path, file in files.items():
        assert not isinstance(file, Text) or made.read(path).data == file.text.encode()
