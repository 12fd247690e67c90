import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.paths import Paths, paths_for

POSIX, WINDOWS = Paths(), Paths(windows=True)
names = st.text(alphabet="ab. -é", min_size=1, max_size=5).filter(lambda name: name not in {".", ".."})
posix_paths = st.lists(names, max_size=5).map(lambda parts: "/" + "/".join(parts))


@pytest.mark.parametrize(
    ("cwd", "windows"),
    [
        ("/a", False),
        ("C:\\a", True),
        ("c:/a", True),
        ("\\\\server\\share\\a", True),
        ("//server/share/a", False),
        ("a", False),
    ],
)
def test_a_drive_or_a_share_makes_a_path_windows(cwd, windows):
    assert paths_for(cwd) == Paths(windows=windows)


@pytest.mark.parametrize(
    ("path", "absolute"), [("/a", True), ("/", True), ("a", False), ("", False), ("C:\\a", False), ("~/a", False)]
)
def test_a_posix_path_is_absolute_from_the_root(path, absolute):
    assert POSIX.is_absolute(path) is absolute


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("C:\\a", True),
        ("c:/a", True),
        ("C:", False),
        ("C:a", False),
        ("\\a", False),
        ("/a", False),
        ("\\\\s\\h\\a", True),
        ("a", False),
    ],
)
def test_a_windows_path_is_absolute_from_its_drive(path, absolute):
    assert WINDOWS.is_absolute(path) is absolute


@pytest.mark.parametrize(
    ("paths", "path", "normal"),
    [
        (POSIX, "/a/../b/./c/", "/b/c"),
        (POSIX, "//a/b", "/a/b"),
        (POSIX, "/..", "/"),
        (WINDOWS, "c:/a/../b", "C:\\b"),
        (WINDOWS, "C:\\", "C:\\"),
        (WINDOWS, "\\\\s\\h\\a\\..\\b", "\\\\s\\h\\b"),
    ],
)
def test_paths_have_one_normal_form(paths, path, normal):
    assert paths.normal(path) == normal
    assert paths.normal(normal) == normal


@pytest.mark.parametrize(
    ("paths", "base", "part", "joined"),
    [
        (POSIX, "/a", "b/../c", "/a/c"),
        (POSIX, "/a", "/b", "/b"),
        (POSIX, "/", "b", "/b"),
        (WINDOWS, "C:\\a", "b/c", "C:\\a\\b\\c"),
        (WINDOWS, "C:\\a", "..\\b", "C:\\b"),
        (WINDOWS, "C:\\a", "d:\\b", "D:\\b"),
    ],
)
def test_parts_are_put_after_their_base(paths, base, part, joined):
    assert paths.join(base, part) == joined


@pytest.mark.parametrize(
    ("path", "extension"),
    [("/a.MD", ".md"), ("/a.tar.gz", ".gz"), ("/.env", ""), ("/Makefile", ""), ("/a.", "."), ("/a.b/c", "")],
)
def test_extensions_are_lower_case_with_their_dot(path, extension):
    assert POSIX.extension(path) == extension


def test_names_and_parents():
    assert (POSIX.name("/a/b"), POSIX.parent("/a/b"), POSIX.parent("/a")) == ("b", "/a", "/")
    assert (WINDOWS.name("C:\\a"), WINDOWS.parent("C:\\a"), WINDOWS.separator) == ("a", "C:\\", "\\")


@pytest.mark.parametrize(
    ("paths", "path", "chain"),
    [
        (POSIX, "/a/b/c", ("/a", "/a/b", "/a/b/c")),
        (POSIX, "/", ()),
        (WINDOWS, "C:\\a\\b", ("C:\\a", "C:\\a\\b")),
        (WINDOWS, "C:\\", ()),
        (WINDOWS, "\\\\s\\h\\a", ("\\\\s\\h\\a",)),
    ],
)
def test_a_chain_goes_from_the_roots_child_to_the_path(paths, path, chain):
    assert paths.chain(path) == chain


@pytest.mark.parametrize(
    ("paths", "path", "folder", "relative"),
    [
        (POSIX, "/a/b/c", "/a", "b/c"),
        (POSIX, "/a/b", "/", "a/b"),
        (POSIX, "/ab", "/a", None),
        (POSIX, "/a", "/a", None),
        (POSIX, "/b", "/a", None),
        (WINDOWS, "C:\\a\\b\\c", "C:\\a", "b/c"),
        (WINDOWS, "C:\\a", "C:\\", "a"),
        (WINDOWS, "D:\\a", "C:\\", None),
    ],
)
def test_a_relative_path_has_slashes_and_stays_inside(paths, path, folder, relative):
    assert paths.relative(path, folder) == relative
    assert paths.within(path, folder) is (relative is not None or path == folder)


@pytest.mark.parametrize(
    ("paths", "path", "folder", "relative"),
    [(POSIX, "/a/b", "/a/c", "../b"), (WINDOWS, "C:\\a\\b", "C:\\c", "..\\a\\b")],
)
def test_a_path_can_be_written_from_elsewhere(paths, path, folder, relative):
    assert paths.relative_from(path, folder) == relative


def test_only_windows_backslashes_are_separators():
    assert WINDOWS.slashed("C:\\a/b") == "C:/a/b"
    assert POSIX.slashed("/a\\b") == "/a\\b"


@given(posix_paths, st.lists(names, min_size=1, max_size=4))
def test_what_is_joined_below_a_folder_is_within_it_and_relative_again(folder, parts):
    folder = POSIX.normal(folder)
    path = POSIX.join(folder, *parts)
    assert POSIX.within(path, folder)
    assert POSIX.relative(path, folder) == "/".join(parts)
    assert POSIX.chain(path)[-1] == path
