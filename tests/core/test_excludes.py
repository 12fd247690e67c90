import pytest

from app.core.excludes import LONGEST, MOST_CHARACTERS, MOST_EXPANDED, MOST_VIEWS, ExcludeGlob, excludes
from app.core.paths import Paths
from app.core.pauses import PAUSE
from app.workspaces.inline import Link
from tests.core.tree import FOLDER, Tree, project

FILES = {
    "/home/dev/p/CLAUDE.md": "p",
    "/home/dev/p/.claude/CLAUDE.md": "dot",
    "/home/dev/p/.claude/rules/a.md": "a",
    "/home/dev/p/.claude/rules/sub/b.md": "b",
    "/home/dev/p/CLAUDE.local.md": "local",
    "/home/dev/.claude/CLAUDE.md": "user",
    "/etc/claude-code/CLAUDE.md": "managed",
}


def compiled(*globs, tree=None, windows=False):
    tree = tree or Tree({})
    return tree.drive(excludes([ExcludeGlob(glob, "here") for glob in globs], Paths(windows=windows)))


def fits(glob, path, **more):
    found = compiled(glob, **more).match([path])
    return found is not None


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/a/CLAUDE.md", "/a/CLAUDE.md"),
        ("/a/*.md", "/a/x.md"),
        ("/a/*", "/a/.hidden"),
        ("/a/**", "/a/.b/.c/d"),
        ("/a/**", "/a"),
        ("/a/**/d.md", "/a/d.md"),
        ("/a/**/d.md", "/a/b/c/d.md"),
        ("**/d.md", "/d.md"),
        ("**/d.md", "/a/b/d.md"),
        ("**/.claude/**", "/a/.claude/rules/x.md"),
        ("**", "/a"),
        ("/**", "/a/b"),
        ("./**/d.md", "/a/d.md"),
        ("/a/{b,c}.md", "/a/c.md"),
        ("{/a,/b}/x", "/b/x"),
        ("/a/{b,{c,d}}.md", "/a/d.md"),
        ("/a/@(b|c).md", "/a/c.md"),
        ("/a/@(b).md", "/a/b.md"),
        ("/a/x?(y).md", "/a/x.md"),
        ("/a/x?(y).md", "/a/xy.md"),
        ("/a/?.md", "/a/b.md"),
        ("/a/[ab].md", "/a/b.md"),
        ("/a/[^b].md", "/a/c.md"),
        ("/a/[!b].md", "/a/!.md"),
        ("/a/[!b].md", "/a/b.md"),
        (" /a/x ", "/a/x"),
    ],
)
def test_a_pattern_fits_absolute_paths(glob, path):
    assert fits(glob, path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/a/*", "/a/b/c"),
        ("/a/*.md", "/a/b/c.md"),
        ("/a/b", "/a/b/c"),
        ("/a/b", "/x/a/b"),
        ("/a/b/", "/a/b"),
        ("/a/?", "/a/"),
        ("/a?b", "/a/b"),
        ("**/b.md", "/a/xb.md"),
        ("/a/CLAUDE.md", "/a/claude.md"),
        ("/a/[!b].md", "/a/c.md"),
        ("/a/x?(y).md", "/a/xyy.md"),
        ("**/d/**", "/a/dd/x"),
    ],
)
def test_a_pattern_fits_no_more_than_it_says(glob, path):
    assert not fits(glob, path)


@pytest.mark.parametrize(
    ("glob", "reason"),
    [
        ("CLAUDE.md", "pattern_never_matched"),
        (".claude/rules/private.md", "pattern_never_matched"),
        ("./a.md", "pattern_never_matched"),
        ("*/a.md", "pattern_never_matched"),
        ("~/a.md", "pattern_never_matched"),
        ("{a,/b}", "pattern_never_matched"),
        ("!/a.md", "pattern_never_matched"),
        ("", "pattern_invalid"),
        ("/a/!(b)", "pattern_invalid"),
        ("/a/+(b)", "pattern_invalid"),
        ("/a/*(b)", "pattern_invalid"),
        ("/a/[b", "pattern_invalid"),
        ("/" + "a" * LONGEST, "pattern_invalid"),
    ],
)
def test_a_pattern_that_can_fit_nothing_is_told(glob, reason):
    found = compiled(glob)
    assert [(dead.glob, why) for dead, why, _ in found.dead] == [(glob, reason)]
    assert found.match(["/a.md", "/a/b", "/b"]) is None


def test_braces_beyond_the_budget_are_told_and_fit_nothing():
    glob = "/a/" + "{b,c}" * 10
    assert not fits(glob, glob)
    assert [row.reason for row in project({}).asked(exclude=(glob,)).load().rows if row.path == glob] == ["budget"]


def test_the_first_pattern_that_fits_is_named():
    found = compiled("/x", "**/a.md", "/p/a.md")
    assert found.match(["/p/a.md"]) == ExcludeGlob("**/a.md", "here")


@pytest.mark.parametrize("glob", ["/private/short/p/*.md", "/short/p/*.md", "/short/p/a.md", "/private/short/p/a.md"])
def test_the_existing_prefix_of_a_pattern_is_also_tried_resolved(glob):
    tree = Tree({"/short": Link("/private/short"), "/private/short/p/a.md": "a"})
    assert fits(glob, "/private/short/p/a.md", tree=tree)
    assert not fits(glob, "/private/short/q/a.md", tree=tree)


def test_a_resolved_prefix_is_no_pattern():
    tree = Tree({"/short": Link("/private/[ab]*"), "/private/[ab]*/a.md": "a"})
    assert fits("/short/*.md", "/private/[ab]*/a.md", tree=tree)
    assert not fits("/short/*.md", "/private/ax/a.md", tree=tree)


@pytest.mark.parametrize("glob", ["C:\\work\\*.md", "C:/work/*.md", "**/a.md", "**\\a.md", "{C:/work,D:/x}/**"])
def test_windows_patterns_take_either_separator(glob):
    tree = Tree({}, cwd="C:\\work", home=None, config_dir=None, managed_dir=None)
    assert fits(glob, "C:\\work\\a.md", tree=tree, windows=True)
    assert not fits(glob, "D:\\work\\b.md", tree=tree, windows=True)


def test_on_windows_a_path_without_a_drive_is_relative():
    tree = Tree({}, cwd="C:\\work", home=None, config_dir=None, managed_dir=None)
    (dead,) = compiled("/work/a.md", tree=tree, windows=True).dead
    assert dead[1] == "pattern_never_matched"


@pytest.mark.parametrize(
    ("glob", "gone"),
    [
        ("/home/dev/p/CLAUDE.md", {"/home/dev/p/CLAUDE.md"}),
        ("**/CLAUDE.local.md", {"/home/dev/p/CLAUDE.local.md"}),
        ("**/.claude/rules/**", {"/home/dev/p/.claude/rules/a.md", "/home/dev/p/.claude/rules/sub/b.md"}),
        ("**/rules/*.md", {"/home/dev/p/.claude/rules/a.md"}),
        ("/home/dev/.claude/**", {"/home/dev/.claude/CLAUDE.md"}),
        ("**", set(FILES) - {"/etc/claude-code/CLAUDE.md"}),
    ],
)
def test_excludes_reach_every_level_but_the_managed_one(glob, gone):
    tree = Tree(FILES).asked(exclude=(glob,))
    assert set(Tree(FILES).paths()) - set(tree.paths()) == gone
    assert {tree.reason(path) for path in gone} == ({"excluded"} if gone else set())


def test_memory_indexes_are_not_excluded():
    tree = project({"/home/dev/.claude/projects/-home-dev-p/memory/MEMORY.md": "index"}).asked(exclude=("**",))
    assert tree.paths() == ["/home/dev/.claude/projects/-home-dev-p/memory/MEMORY.md"]


@pytest.mark.parametrize("glob", ["/home/dev/p/CLAUDE.md", "/home/dev/p/AGENTS.md"])
def test_a_linked_file_is_excluded_by_its_own_name_and_by_its_target(glob):
    tree = project({"AGENTS.md": "a", "CLAUDE.md": Link("AGENTS.md")}).asked(exclude=(glob,))
    assert tree.paths() == []
    assert glob in tree.row("/home/dev/p/CLAUDE.md").hint


@pytest.mark.parametrize("glob", ["/home/dev/p/.claude/rules/shared/*.md", "/home/dev/rules/*.md"])
def test_a_linked_rules_folder_is_excluded_by_either_name(glob):
    tree = project({".claude/rules/shared": Link("/home/dev/rules"), "/home/dev/rules/a.md": "a"}).asked(
        exclude=(glob,)
    )
    assert tree.paths() == []


def test_an_excluded_include_is_told_with_its_pattern():
    tree = project({"CLAUDE.md": "@big.md", "big.md": "big"}).asked(exclude=("**/big.md",))
    assert tree.paths() == ["/home/dev/p/CLAUDE.md"]
    row = tree.row("/home/dev/p/big.md", "/home/dev/p/CLAUDE.md")
    assert (row.verdict, row.reason, row.line) == ("skipped", "excluded", 1)
    assert "**/big.md" in row.hint
    assert "memory.exclude" in row.hint


def test_patterns_of_settings_files_come_with_their_file():
    tree = project(
        {".claude/settings.json": '{"claudeMdExcludes": ["CLAUDE.md", "**/x.md"]}', "CLAUDE.md": "@x.md", "x.md": "x"}
    )
    memory = tree.load()
    settings = "/home/dev/p/.claude/settings.json"
    assert tree.reason("/home/dev/p/x.md", "/home/dev/p/CLAUDE.md") == "excluded"
    assert [(row.path, row.reason) for row in memory.rows if row.parent == settings] == [
        ("CLAUDE.md", "pattern_never_matched")
    ]
    assert [(notice.code, notice.where) for notice in memory.notices] == [("pattern_never_matched", settings)]


def test_patterns_beyond_the_budget_of_a_request_are_told():
    globs = ["/**/{1..600}x"] * 3
    tree = project({}).asked(exclude=tuple(globs))
    told = [row for row in tree.load().rows if row.parent == "memory.exclude"]
    assert [row.reason for row in told] == ["budget"]


def test_patterns_beyond_the_first_thousand_are_told_once_for_each_file():
    found = compiled(*(f"/{number}" for number in range(MOST_EXPANDED + 3)))
    assert len(found.patterns) == MOST_EXPANDED
    ((first, reason, hint),) = found.dead
    assert (first.glob, reason) == (f"/{MOST_EXPANDED}", "budget")
    assert "So it is with the 2 behind it" in hint


def test_the_first_pattern_beyond_is_told_alone_when_it_is_the_last():
    ((_, _, hint),) = compiled(*(f"/{number}" for number in range(MOST_EXPANDED + 1))).dead
    assert "behind it" not in hint


def test_patterns_that_are_too_long_together_are_told():
    long = tuple(f"/{number}{'a' * 1_000}" for number in range(MOST_CHARACTERS // 1_000 + 2))
    assert [reason for _, reason, _ in compiled(*long).dead] == ["budget"]


def test_comparing_a_long_path_with_many_patterns_pauses():
    comparing = compiled(*(f"/{number}" for number in range(100))).comparing(["/" + "a" * (PAUSE // 10)])
    assert len(list(comparing)) == 9


LINKED = {"/home/dev/link-a": Link("/data/work"), "/data/work/CLAUDE.md": "w", "/data/work/p/CLAUDE.md": "p"}


@pytest.mark.parametrize(
    ("cwd", "glob", "left"),
    [
        ("/home/dev/link-a", "**/link*/CLAUDE.md", []),
        ("/home/dev/link-a", "/home/*/link-a/CLAUDE.md", []),
        ("/home/dev/link-a", "/home/dev/link?a/**", []),
        ("/home/dev/link-a", "**/data/**", []),
        ("/home/dev/link-a", "**/link-b/**", ["/data/work/CLAUDE.md"]),
        ("/data/work", "**/link*/CLAUDE.md", ["/data/work/CLAUDE.md"]),
        ("/home/dev/link-a/p", "**/link*/CLAUDE.md", ["/data/work/p/CLAUDE.md"]),
        ("/home/dev/link-a/p", "**/link*/p/*.md", ["/data/work/CLAUDE.md"]),
        ("/home/dev/link-a/p", "**/link*/**", []),
    ],
)
def test_a_file_has_the_path_too_by_which_its_folder_was_given(cwd, glob, left):
    tree = Tree(LINKED, cwd=cwd).asked(exclude=(glob,))
    assert tree.paths() == left
    assert all(glob in row.hint for row in tree.load().rows if row.reason == "excluded")


def test_links_in_a_row_all_count_as_they_were_given():
    files = {"/a": Link("/b"), "/b/c": Link("/d"), "/d/e": Link("/f"), "/f/CLAUDE.md": "f", "/d/CLAUDE.md": "d"}
    gone = {
        glob: Tree(files, cwd="/a/c/e/sub").asked(exclude=(glob,)).paths() == [] for glob in ("/a*/c/e/*", "/[d]/e/*")
    }
    assert gone == {"/a*/c/e/*": True, "/[d]/e/*": False}


def test_a_link_to_the_root_is_a_folder_as_any_other():
    tree = Tree({"/r": Link("/"), "/p/CLAUDE.md": "p"}, cwd="/r/p")
    assert tree.asked(exclude=("/?/p/*.md",)).paths() == []
    assert tree.asked(exclude=("/?/q/*.md",)).paths() == ["/p/CLAUDE.md"]


def test_an_include_and_a_rule_and_an_attachment_have_the_path_as_it_was_given_too():
    files = {
        "/link": Link("/real"),
        "/real/CLAUDE.md": "@docs/a.md",
        "/real/docs/a.md": "a",
        "/real/.claude/rules/r.md": "r",
        "/real/sub/CLAUDE.md": "s",
    }
    tree = Tree(files, cwd="/link")
    assert tree.brought("/link/sub/x.c") == ["/real/sub/CLAUDE.md"]
    left = tree.asked(exclude=("/lin?/docs/**", "/lin?/.claude/**", "/lin?/sub/**"))
    assert (left.paths(), left.brought("/link/sub/x.c")) == (["/real/CLAUDE.md"], [])


def test_an_additional_directory_has_the_path_as_it_was_given_too():
    files = {"/home/dev/p": FOLDER, "/more": Link("/real"), "/real/CLAUDE.md": "r"}
    tree = Tree(files, additional=("/more",)).asked(from_additional_directories=True)
    assert tree.paths() == ["/real/CLAUDE.md"]
    assert tree.asked(exclude=("/mor*/**",)).paths() == []


def test_on_windows_too_a_file_has_the_path_as_it_was_given():
    files = {"C:\\link": Link("D:\\real"), "D:\\real\\CLAUDE.md": "r"}
    tree = Tree(files, cwd="C:\\link", home=None, config_dir=None, managed_dir=None)
    assert tree.paths() == ["D:\\real\\CLAUDE.md"]
    assert tree.asked(exclude=("C:/lin*/**",)).paths() == []


def test_of_many_links_to_one_folder_only_some_count():
    links = {f"/l{number}": Link("/real") for number in range(MOST_VIEWS + 1)}
    tree = Tree({**links, "/real/CLAUDE.md": "r"}, cwd="/real", additional=tuple(links))
    assert tree.asked(exclude=(f"/l[{MOST_VIEWS - 1}]/**",)).paths() == []
    assert tree.asked(exclude=(f"/l[{MOST_VIEWS}]/**",)).paths() == ["/real/CLAUDE.md"]
