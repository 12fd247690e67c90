from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.facts import Kind
from app.core.flow import Flow, look, names
from app.core.ignores import IgnoreFiles, Ignores, ignore_lines, ignore_list
from app.core.paths import Paths
from app.core.scan import ScanLimits
from app.gather import Answers
from app.workspaces.inline import Binary, Folder, InlineFile, InlineWorkspace, Link, Text
from tests.reference.programs import git

POSIX = Paths()
ROOT = "/w"
LARGEST = ScanLimits().ignore_file_bytes
REPOSITORY: dict[str, InlineFile] = {".git/HEAD": Text("ref: refs/heads/main\n")}
LEAVES = ("a", "b", "ab", "été indien", "a b", "c ", "x.log", "a]", "-", "a*", "!a", "#a", "a\nb")
FOLDERS = ("", "a.d", "a.d/b", "a.d/b/a", "b", "b/ab", "été indien", "build", "build/b", "other/b/b/b")


def inline(files: dict[str, InlineFile], limit: int = 1_000_000) -> InlineWorkspace:
    return InlineWorkspace({f"{ROOT}/{path}": file for path, file in files.items()}, None, POSIX, limit)


def ignore_files(most_bytes: int = LARGEST, file_bytes: int = LARGEST, most_rules: int = 1_000) -> IgnoreFiles:
    return IgnoreFiles(POSIX, most_bytes, file_bytes, most_rules)


def kept(folder: str, reading: IgnoreFiles) -> Flow[list[str]]:
    """The files below ``folder`` that are not ignored."""
    found = []
    waiting = [(folder, (yield from reading.above(folder)))]
    while waiting:
        at, ignores = waiting.pop()
        listed = yield from names(at)
        ignores = yield from reading.inside(ignores, at, listed)
        for name in listed:
            path = POSIX.join(at, name)
            node = yield from look(path)
            is_folder = node.kind is Kind.DIRECTORY and node.real == path
            if name == ".git" or ignores.ignores(name, is_folder=is_folder):
                continue
            if is_folder:
                waiting.append((path, ignores.below(name)))
            else:
                found.append(path.removeprefix(f"{ROOT}/"))
    return sorted(found)


def kept_of(files: dict[str, InlineFile], folder: str = "", reading: IgnoreFiles | None = None) -> list[str]:
    return Answers(inline(files)).drive(kept(POSIX.join(ROOT, folder), reading or ignore_files()))


def in_force(lines: bytes) -> Ignores:
    return Ignores().and_list(ignore_list(ignore_lines(lines)))


def is_ignored(lines: bytes, path: str, *, is_folder: bool = False) -> bool:
    ignores = in_force(lines)
    *above, name = path.split("/")
    for folder in above:
        if ignores.ignores(folder, is_folder=True):
            return True
        ignores = ignores.below(folder)
    return ignores.ignores(name, is_folder=is_folder)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real repository in which nothing is tracked."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "--quiet")
    for path in tree():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"")
    (folder / "b" / "link").symlink_to("../build")
    return folder


@pytest.fixture(scope="module")
def empty_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real repository with nothing in it, in which a file of one name is ignored."""
    folder = tmp_path_factory.mktemp("empty")
    git(folder, "init", "--quiet")
    (folder / ".git/info/exclude").write_text("always.ignored")
    return folder


def tree() -> list[str]:
    paths = [f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in LEAVES]
    return [path for path in paths if not any(f"{folder}/".startswith(f"{path}/") for folder in FOLDERS)]


def untracked(repository: Path, *arguments: str) -> list[str]:
    listed = git(repository, "ls-files", "-z", "--others", *arguments)
    return sorted(path for path in listed.split("\0") if path)


# Left out, because nobody writes them into ignore files and the library reads them in its own way: named classes,
# brackets that do not close, slashes or backslashes in sets, `**` beside other characters, two slashes in a row, and a
# backslash at the end. `?` stands for a character here and for a byte in git: the one name that is not ASCII is too
# long for it to tell.
WORDS = st.sampled_from(
    ("a", "b", "ab", "a.d", "été indien", "build", "other", "x.log", "a b", "\\#a", "\\!a", "c\\ ", "a\\*")
)
SETS = st.sampled_from(("[ab]", "[a-b]", "[!a]", "[^b]", "[!x-z]", "[]a]"))
WILD = st.sampled_from(("*", "*.log", "*b", "a*", "*.*", "b*d", "**", "a?", "?b", "[ab]?", "?*", "*[ab]*", "[!a]*"))
PARTS = (
    WORDS
    | WILD
    | st.lists(st.sampled_from(("a", "b", "*")) | SETS, min_size=1, max_size=3)
    .map("".join)
    .filter(lambda part: "**" not in part)
)
LINES = st.builds(
    lambda negation, start, parts, end: f"{negation}{start}{'/'.join(parts)}{end}".encode(),
    st.sampled_from(("", "", "!")),
    st.sampled_from(("", "", "/", "**/")),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(("", "", "/", "/*", "/**", "  ", "\r")),
)
KEEPS = st.sampled_from((b"*\n!*/\n!*.log", b"/*\n!/a.d", b"!*/", b"a.d/*\n!a.d/b/", b"b/\n!a.d/", b"# b", b""))
FILES = st.lists(LINES | KEEPS, max_size=4).map(b"\n".join)


@settings(max_examples=200, deadline=None)
@given(at_root=FILES, nested=FILES, deeper=FILES, excluded=FILES)
def test_what_is_kept_of_a_tree_is_what_git_lists_as_not_ignored(
    repository: Path, at_root: bytes, nested: bytes, deeper: bytes, excluded: bytes
):
    ignoring = {".gitignore": at_root, "a.d/.gitignore": nested, "a.d/b/.gitignore": deeper}
    for path, data in {**ignoring, ".git/info/exclude": excluded}.items():
        (repository / path).write_bytes(data)
    files: dict[str, InlineFile] = {path: Binary(b"") for path in tree()}
    files |= {path: Binary(data) for path, data in ignoring.items()}
    files |= {".git/info/exclude": Binary(excluded), "b/link": Link("../build"), **REPOSITORY}
    ours = kept_of(files)
    assert ours == untracked(repository, "--exclude-standard")
    assert sorted({*files, *ours} - {*ours, ".git/HEAD", ".git/info/exclude"}) == untracked(
        repository, "--exclude-standard", "--ignored"
    )


@pytest.mark.parametrize(
    ("lines", "ignored", "kept"),
    [
        ("*.log", ["x.log", "a/x.log"], ["x.logs"]),
        ("/a", ["a"], ["b/a"]),
        ("a/b", ["a/b", "a/b/c"], ["x/a/b"]),
        ("a", ["a", "x/a", "a/x"], ["ab"]),
        ("*\n!a", ["b"], ["a"]),
        ("a/*\n!a/b", ["a/c"], ["a/b"]),
        ("a\n!a/b", ["a/b"], []),
        ("**/a", ["a", "x/y/a"], ["ab"]),
        ("a/**", ["a/b", "a/b/c"], ["b"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["a/xb"]),
        ("a**", ["abc"], ["b/c"]),
        ("# a", [], ["# a", "a"]),
        ("\\#a\n\\!b", ["#a", "!b"], ["a"]),
        ("a  \nb\\ \nc\\   \r", ["a", "b ", "c "], ["b", "c"]),
        ("a\r\nb", ["a", "b"], ["a\r"]),
        ("a\\", [], ["a", "a\\"]),
        ("\n\r\n!\n/\n", [], ["a"]),
        ("?", ["a"], ["ab"]),
        ("*\n!*/\n!*.md", ["a", "a/b"], ["a.md", "a/b.md"]),
        ("node_modules/\n!packages/", ["packages/node_modules/a"], ["packages/a"]),
        ("a/**/b/", ["a/b/c", "a/x/b/c"], ["a/b"]),
        ("a/**/", ["a/b/c"], ["a/c"]),
        ("A", ["A"], ["a"]),
        ("[a-cx]", ["a", "b", "x"], ["d", "-"]),
        ("[!a]", ["b"], ["a"]),
        ("[^a]", ["b"], ["a"]),
        ("[]-]", ["]", "-"], ["a"]),
        ("[a", [], ["a", "[a"]),
        ("[/]\na[!b]c", ["axc"], ["a/c"]),
        ("a\nb", ["a", "b"], ["a\nb"]),
    ],
)
def test_lines_mean_what_they_mean_to_git(empty_repository: Path, lines: str, ignored: list[str], kept: list[str]):
    (empty_repository / ".gitignore").write_bytes(lines.encode())
    asked = "".join(f"./{path}\0" for path in (*ignored, *kept, "always.ignored"))
    answered = git(empty_repository, "check-ignore", "--no-index", "--stdin", "-z", given=asked.encode())
    assert answered == "".join(f"./{path}\0" for path in (*ignored, "always.ignored"))
    assert [path for path in (*ignored, *kept) if is_ignored(lines.encode(), path)] == ignored


def test_a_pattern_with_a_slash_at_its_end_names_folders_only():
    assert is_ignored(b"a/", "a", is_folder=True)
    assert not is_ignored(b"a/", "a")
    assert is_ignored(b"a/", "a/b")
    assert not is_ignored(b"a/**", "a", is_folder=True)


def test_a_byte_order_mark_is_no_part_of_the_first_pattern():
    assert is_ignored(b"\xef\xbb\xbfa", "a")


def test_a_pattern_with_stars_at_its_end_names_what_is_below_and_not_the_folder():
    assert is_ignored(b"a/**", "a/b", is_folder=True)
    assert not is_ignored(b"a/**\n!a/b", "a/b")


def test_bytes_that_are_not_utf_8_fit_themselves():
    assert is_ignored(b"caf\xe9", "caf\udce9")
    assert is_ignored(b"*.log", "caf\udce9.log")


def test_the_nearest_file_that_says_something_decides():
    files: dict[str, InlineFile] = {
        ".gitignore": Text("*.log\n!keep.log"),
        "a/.gitignore": Text("!x.log\nkeep.log"),
        **{f"{folder}{name}": Text("") for folder in ("", "a/", "a/b/") for name in ("x.log", "keep.log", "y.log")},
    }
    assert kept_of(files) == [".gitignore", "a/.gitignore", "a/b/x.log", "a/x.log", "keep.log"]


def test_the_repositorys_own_exclude_file_is_the_weakest():
    files = {**REPOSITORY, ".git/info/exclude": Text("a\nb"), ".gitignore": Text("!a"), "a": Text(""), "b": Text("")}
    assert kept_of(files) == [".gitignore", "a"]


def test_what_stands_above_the_folder_counts_from_its_repository_on():
    files = {
        ".gitignore": Text("outer"),
        **{f"r/{path}": file for path, file in REPOSITORY.items()},
        "r/.git/info/exclude": Text("excluded"),
        "r/.gitignore": Text("*.log\n/p/q/anchored"),
        "r/p/.gitignore": Text("!b.log"),
        **{
            f"r/p/q/{name}": Text("")
            for name in ("a.log", "b.log", "anchored", "sub/anchored", "excluded", "outer", "other")
        },
    }
    expected = ["r/p/q/b.log", "r/p/q/other", "r/p/q/outer", "r/p/q/sub/anchored"]
    assert kept_of(files, "r/p/q") == expected


def test_without_a_repository_nothing_above_the_folder_counts():
    files: dict[str, InlineFile] = {".gitignore": Text("a"), "p/a": Text(""), ".git": Folder()}
    assert kept_of(files, "p") == ["p/a"]


def test_an_ignored_folder_that_is_asked_for_shows_what_is_in_it():
    files = {**REPOSITORY, ".gitignore": Text("build/"), "build/a": Text("")}
    assert kept_of(files) == [".gitignore"]
    assert kept_of(files, "build") == ["build/a"]


@pytest.mark.parametrize("marker", ["sub/.git", "sub/.git/HEAD"])
def test_a_repository_inside_another_starts_anew(marker: str):
    files = {
        **REPOSITORY,
        ".gitignore": Text("a\n*.log"),
        marker: Text("gitdir: ../.git/modules/sub"),
        "sub/.gitignore": Text("b"),
        **{f"sub/{name}": Text("") for name in ("a", "b", "x.log")},
    }
    assert kept_of(files) == [".gitignore", "sub/.gitignore", "sub/a", "sub/x.log"]


def test_a_folder_named_git_that_is_no_repository_changes_nothing():
    files: dict[str, InlineFile] = {".gitignore": Text("a"), "sub/.git/config": Text(""), "sub/a": Text("")}
    assert kept_of(files) == [".gitignore"]


@pytest.mark.parametrize("stands", [Link("rules"), Folder(), Link("nowhere")])
def test_an_ignore_file_that_is_a_link_or_a_folder_has_no_effect(stands: InlineFile):
    files = {".gitignore": stands, "rules": Text("a"), "a": Text("")}
    assert "a" in kept_of(files)


def test_the_exclude_file_may_be_a_link():
    files = {**REPOSITORY, ".git/info/exclude": Link("/w/rules"), "rules": Text("a"), "a": Text("")}
    assert kept_of(files) == ["rules"]


def test_a_link_to_a_folder_is_a_file_to_git():
    files: dict[str, InlineFile] = {".gitignore": Text("l/"), "l": Link("f"), "f/x": Text("")}
    assert kept_of(files) == [".gitignore", "f/x", "l"]


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (ignore_files(most_bytes=3), "ignore_bytes"),
        (ignore_files(file_bytes=1), "ignore_file_bytes"),
        (ignore_files(most_rules=1), "ignore_rules"),
    ],
)
def test_an_ignore_file_beyond_a_bound_has_no_effect_and_is_told(reading: IgnoreFiles, reason: str):
    files: dict[str, InlineFile] = {".gitignore": Text("a"), "p/.gitignore": Text("b\nc"), "p/b": Text("")}
    if reason == "ignore_file_bytes":
        files[".gitignore"] = Text("")
    assert "p/b" in kept_of(files, reading=reading)
    assert reading.refused == [("/w/p/.gitignore", reason)]


def test_an_ignore_file_that_cannot_be_read_has_no_effect_and_is_told():
    reading = ignore_files()
    workspace = inline({".gitignore": Text("a" + "\n" * 100), "a": Text("")}, limit=50)
    assert Answers(workspace).drive(kept(ROOT, reading)) == [".gitignore", "a"]
    assert reading.refused == [("/w/.gitignore", "ignore_unreadable")]


def test_an_ignore_file_without_lines_puts_nothing_in_force():
    ignores = Answers(inline({".gitignore": Text("# nothing\n")})).drive(
        ignore_files().inside(Ignores(), ROOT, (".gitignore",))
    )
    assert ignores.lists == ()


@pytest.mark.parametrize("line", ["!", "!/", "a\\", "[b-a]", "x/[\\d-a]", "[a"])
def test_a_line_that_cannot_be_read_is_left_out_and_told_and_the_others_work(line: str):
    reading = ignore_files()
    files = {".gitignore": Text(f"a\n{line}\nb"), "a": Text(""), "b": Text(""), "c": Text("")}
    assert kept_of(files, reading=reading) == [".gitignore", "c"]
    assert reading.refused == [("/w/.gitignore", "ignore_lines")]


def test_a_line_too_large_to_be_matched_is_left_out_and_told():
    large = "?" * (LARGEST // 2)
    found = ignore_list(("a", large, "!b"))
    assert (found.size, found.unread) == (2, 1)
    assert (found.verdict("a"), found.verdict("b"), found.verdict("c")) == (True, False, None)


def test_lines_that_are_too_large_together_are_matched_apart_and_the_last_that_fits_still_decides():
    large = ["?" * 3_000 + str(number) for number in range(8)]
    found = ignore_list(("a", *large[:4], "!a", *large[4:], "!b", "b"))
    assert len(found.specs) > 1
    assert found.unread == 0
    assert (found.verdict("a"), found.verdict("b"), found.verdict("c")) == (False, True, None)
    assert found.verdict("x" * 3_000 + "5") is True


def hard() -> Iterator[bytes]:
    for unit in (b"?", b"*a", b"?*", b"**/b/", b"[acegikmoq]", b"[!a]", b"[[:alpha:]]", b"[a&&b--c]"):
        for length in (8, 400, LARGEST // 2):
            line = unit * (length // len(unit))
            yield b"\n".join([line] * min(LARGEST // (len(line) + 1), 1_000))


@pytest.mark.parametrize("data", tuple(hard()))
def test_the_largest_ignore_file_that_is_read_can_be_matched_and_nothing_is_printed(
    data: bytes, capfd: pytest.CaptureFixture[str]
):
    ignores = in_force(data + b"\n*")
    assert all(ignores.ignores("ab" * length, is_folder=True) for length in range(1, 100))
    assert capfd.readouterr() == ("", "")


@given(st.binary(max_size=60), st.text(min_size=1, max_size=10).filter(lambda name: "/" not in name))
def test_no_ignore_file_and_no_name_is_an_error(data: bytes, name: str):
    assert in_force(data).below(name).ignores(name, is_folder=True) in {True, False}


def test_lone_surrogates_of_a_callers_names_are_no_error():
    assert not in_force(b"a").below("\ud800").and_list(ignore_list(("b",))).ignores("\udcff", is_folder=False)


@pytest.mark.parametrize(
    ("line", "work"),
    [("abc", 1), ("/abc?", 1), ("abc*", 10), ("**/abc", 1), ("a/**/b", 10), ("*a*b", 14), ("[ab]*a?[cd]", 18)],
)
def test_work_is_told_from_the_wildcards_of_a_line_and_the_length_of_the_path(line: str, work: int):
    ignores = in_force(line.encode())
    assert ignores.work("x") == work
    assert ignores.below("abcd").work("xyz") == work * len("abcd/xyz")
    assert ignores.and_list(ignore_list(("a",))).work("x") == work + 1
