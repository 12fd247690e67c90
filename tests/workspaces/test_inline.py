from __future__ import annotations

import pytest

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.core.paths import Paths
from app.workspaces.inline import Binary, Folder, InlineFile, InlineWorkspace, Link, Text, TreeConflictError
from app.workspaces.resolving import Entry, Resolver
from tests.workspaces.trees import LIMIT, POSIX


def inline(files: dict[str, InlineFile], git: GitFacts | None = None, *, windows: bool = False) -> InlineWorkspace:
    return InlineWorkspace(files, git, Paths(windows=windows), LIMIT)


def test_without_files_there_is_only_the_root() -> None:
    workspace = inline({})
    assert workspace.look("/") == Node(Kind.DIRECTORY, "/")
    assert workspace.names("/") == ()
    assert workspace.look("/home") == Node(Kind.MISSING, "/home")


def test_no_disk_is_read() -> None:
    assert inline({}).look("/etc/passwd").kind is Kind.MISSING
    assert inline({"/etc/x": Text("")}).names("/etc") == ("x",)


def test_keys_are_normalised() -> None:
    workspace = inline({"//r/./a//b/../x.md": Text("x"), "/r/folder/": Folder()})
    assert workspace.read("/r/a/x.md") == Content(b"x")
    assert workspace.names("/r") == ("a", "folder")


@pytest.mark.parametrize("key", [r"c:\Users\dev\CLAUDE.md", "C:/Users/dev/CLAUDE.md", r"C:\Users/dev\.\CLAUDE.md"])
@pytest.mark.parametrize("asked", [r"C:\Users\dev\CLAUDE.md", "c:/Users/dev/CLAUDE.md"])
def test_windows_paths_take_either_slash_and_any_drive_case(key: str, asked: str) -> None:
    workspace = inline({key: Text("x")}, windows=True)
    assert workspace.look(asked) == Node(Kind.FILE, r"C:\Users\dev\CLAUDE.md", 1)
    assert workspace.names("c:/Users") == ("dev",)
    assert workspace.look("D:\\").kind is Kind.MISSING


def test_windows_links_lead_within_and_across_drives() -> None:
    workspace = inline(
        {
            r"C:\p\a.md": Link("../q/b.md"),
            r"C:\q\b.md": Text("b"),
            r"C:\p\d.md": Link("d:/x.md"),
            r"D:\x.md": Text("x"),
        },
        windows=True,
    )
    assert workspace.look(r"C:\p\a.md").real == r"C:\q\b.md"
    assert workspace.look(r"C:\p\d.md").real == r"D:\x.md"


def test_windows_shares_are_roots() -> None:
    workspace = inline({r"\\server\share\p\a.md": Text("a")}, windows=True)
    assert workspace.look("//server/share/p/a.md") == Node(Kind.FILE, r"\\server\share\p\a.md", 1)
    assert workspace.names("\\\\server\\share\\") == ("p",)


def test_a_key_below_a_link_stands_where_the_link_leads() -> None:
    workspace = inline({"/r/link": Link("real"), "/r/link/a.md": Text("a"), "/r/real/b.md": Text("b")})
    assert workspace.names("/r/real") == ("a.md", "b.md")
    assert workspace.look("/r/link/a.md").real == "/r/real/a.md"


def test_a_key_below_a_link_to_nowhere_makes_the_folder_it_leads_to() -> None:
    workspace = inline({"/r/link": Link("/elsewhere/deep"), "/r/link/a.md": Text("a")})
    assert workspace.read("/elsewhere/deep/a.md") == Content(b"a")
    assert workspace.look("/r/link") == Node(Kind.DIRECTORY, "/elsewhere/deep")


def test_links_below_links_are_placed_whatever_their_order() -> None:
    workspace = inline(
        {
            "/r/l": Link("/r/p/q/s"),
            "/r/l/m": Link("/r/target.md"),
            "/r/p/q/s": Link("/t"),
            "/r/target.md": Text("found"),
        }
    )
    assert workspace.look("/t/m").real == "/r/target.md"
    assert workspace.names("/r/l") == ("m",)


def test_the_same_file_given_by_two_paths_is_one_file() -> None:
    workspace = inline({"/r/link": Link("real"), "/r/link/a.md": Text("a"), "/r/real/a.md": Binary(b"a")})
    assert workspace.names("/r/real") == ("a.md",)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"/r/a": Text("x"), "/r/a/b": Text("y")}, "/r/a/b"),
        ({"/r/a": Binary(b""), "/r/a/b/c": Folder()}, "/r/a/b/c"),
        ({"/r/a.md": Text("x"), "/r//a.md": Text("y")}, "/r/a.md"),
        ({"/r/a": Folder(), "/r/a/": Text("y")}, "/r/a/"),
        ({"/r/a": Link("x"), "/r/./a": Link("y")}, "/r/a"),
        ({"/r/l": Link("d"), "/r/l/a": Text("x"), "/r/d/a": Text("y")}, "/r/l/a"),
        ({"/r/l": Link("f"), "/r/f": Text("x"), "/r/l/a": Text("y")}, "/r/l/a"),
        ({"/r/l": Link("l"), "/r/l/a": Text("y")}, "/r/l/a"),
        ({"/r/l": Link("l/x"), "/r/l/a": Text("y")}, "/r/l/a"),
        ({"/r/l": Link("gone/deeper/.."), "/r/l/a": Text("y")}, "/r/l/a"),
        ({"/r/a/l": Link("x"), "/r/a": Text("y")}, "/r/a"),
        ({"/": Text("root")}, "/"),
        ({"r/a": Text("relative")}, "r/a"),
        ({"": Text("empty")}, ""),
    ],
)
def test_files_that_make_no_tree_are_refused_by_name(files: dict[str, InlineFile], named: str) -> None:
    with pytest.raises(TreeConflictError) as caught:
        inline(files)
    assert caught.value.path == named
    assert str(caught.value).startswith(f"{named}: ")


def test_a_posix_path_is_refused_among_windows_paths() -> None:
    with pytest.raises(TreeConflictError, match="absolute"):
        inline({"/home/dev/a.md": Text("a")}, windows=True)


def test_the_root_may_be_given_as_a_folder() -> None:
    assert inline({"/": Folder(), "/a": Text("")}).names("/") == ("a",)


def test_very_deep_files_have_their_folders_up_to_a_limit() -> None:
    path = "/d" * 255
    assert inline({path + "/a.md": Text("a")}).names(path) == ("a.md",)
    with pytest.raises(TreeConflictError, match="256 folders") as caught:
        inline({path + "/d/a.md": Text("a")})
    assert caught.value.path == path + "/d/a.md"
    assert len(str(caught.value)) < 300


def test_a_path_has_at_most_as_many_characters_as_linux_allows() -> None:
    path = ("/" + "d" * 127) * 31 + "/"
    longest = path + "x" * (4_096 - len(path))
    assert inline({longest: Text("a")}).read(longest) == Content(b"a")
    with pytest.raises(TreeConflictError, match="4,096 characters"):
        inline({longest + "x": Text("a")})


def test_a_target_has_at_most_as_many_characters_as_linux_allows() -> None:
    assert inline({"/l": Link("x" * 4_096)}).look("/l").kind is Kind.DANGLING
    with pytest.raises(TreeConflictError, match="target") as caught:
        inline({"/l": Link("x" * 4_097)})
    assert caught.value.path == "/l"


@pytest.mark.parametrize(
    ("width", "depth", "name"), [(410, 250, "d"), (40, 250, "d" * 15)], ids=["too many", "too long together"]
)
def test_files_that_imply_too_many_folders_are_refused(width: int, depth: int, name: str) -> None:
    files: dict[str, InlineFile] = {f"/{number}" + f"/{name}" * depth: Text("") for number in range(width)}
    with pytest.raises(TreeConflictError, match="send fewer"):
        inline(files)
    assert len(inline(dict(list(files.items())[: width // 10])).names("/")) == width // 10


def test_links_cannot_make_a_path_longer_than_it_may_be_written() -> None:
    files: dict[str, InlineFile] = {"/1": Link("d/" * 200), "/2": Link("1/" + "d/" * 200), "/2/a.md": Text("a")}
    with pytest.raises(TreeConflictError, match="too long") as caught:
        inline(files)
    assert caught.value.path == "/2/a.md"


def test_a_dangling_link_is_followed_once() -> None:
    asked: list[str] = []

    def entry(path: str) -> Entry | None:
        asked.append(path)
        return {"/": Entry(Kind.DIRECTORY), "/l": Entry(Kind.DANGLING, target="gone")}.get(path)

    resolver = Resolver(POSIX, entry)
    first = resolver.resolve("/l")
    assert [resolver.resolve("/l") for _ in range(5)] == [first] * 5
    assert sorted(asked) == ["/", "/gone", "/l"]


def test_after_very_long_ways_to_nowhere_no_link_is_followed() -> None:
    good: dict[str, InlineFile] = {"/a/x.md": Text("x"), "/good": Link("a/x.md")}
    ways: dict[str, InlineFile] = {f"/{n}": Link("a/../" * 800 + str(n + 1)) for n in range(150)}
    workspace = inline(good | ways)
    assert inline(good | ways).look("/good").kind is Kind.FILE
    for number in range(150):
        assert workspace.look(f"/{number}").kind is Kind.DANGLING
    assert workspace.look("/good").kind is Kind.DANGLING
    assert workspace.look("/a/x.md").kind is Kind.FILE


def test_a_long_chain_of_links_ends_as_on_linux() -> None:
    files: dict[str, InlineFile] = {f"/r/{n}": Link(str(n + 1)) for n in range(100)}
    workspace = inline({**files, "/r/100": Text("end")})
    assert workspace.look("/r/59").kind is Kind.DANGLING
    assert workspace.look("/r/60").kind is Kind.FILE
    assert workspace.look("/r/59").kind is Kind.DANGLING or workspace.look("/r/60").kind is Kind.FILE


@pytest.mark.parametrize("target", ["a.md/", "a.md/.", "a.md/../a.md"])
def test_a_link_that_takes_a_file_for_a_folder_leads_nowhere(target: str) -> None:
    workspace = inline({"/r/a.md": Text("a"), "/r/l": Link(target), "/r/folder/b.md": Text("b")})
    assert workspace.look("/r/l") == Node(Kind.DANGLING, "/r/a.md")
    assert inline({"/r/folder/b.md": Text("b"), "/r/l": Link("folder/./")}).look("/r/l").kind is Kind.DIRECTORY


def test_an_empty_link_leads_nowhere() -> None:
    assert inline({"/r/l": Link("")}).look("/r/l").kind is Kind.DANGLING


def test_git_is_what_the_caller_knows() -> None:
    facts = GitFacts(roots=GitRoots("/r/p"), branch="main", log=("a1 start",))
    workspace = inline({}, facts)
    assert workspace.git("/r/p/sub") == facts
    assert workspace.roots("/r/p") == GitRoots("/r/p")


def test_the_callers_repository_does_not_hold_other_folders() -> None:
    workspace = inline({}, GitFacts(roots=GitRoots("/r/p"), branch="main"))
    assert workspace.roots("/r/pp") is None
    assert workspace.git("/r") is None


def test_git_facts_without_roots_hold_everywhere() -> None:
    workspace = inline({}, GitFacts(branch="main"))
    assert workspace.git("/any") == GitFacts(branch="main")
    assert workspace.roots("/any") is None


def test_without_git_facts_there_is_no_repository() -> None:
    assert inline({}).git("/r") is None
    assert inline({}).roots("/r") is None


def test_roots_are_given_by_their_real_paths() -> None:
    files: dict[str, InlineFile] = {"/link": Link("/real"), "/real/side/a.md": Text("a")}
    workspace = inline(files, GitFacts(roots=GitRoots("/link/side", "/link/main")))
    assert workspace.roots("/link/side") == GitRoots("/real/side", "/real/main")


def test_text_that_utf8_cannot_hold_does_not_crash() -> None:
    assert InlineWorkspace({"/a": Text("x\udc80")}, None, POSIX, LIMIT).read("/a") == Content(b"x?")
