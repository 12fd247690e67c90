import pytest

from app.core.facts import GitRoots
from app.core.memory import auto_memory_dir, memory_key
from app.workspaces.inline import Link
from tests.core.tree import FOLDER, HOME, MANAGED, PROJECT, Tree, project, rows_of

INDEX = "/home/dev/.claude/projects/-home-dev-p/memory/MEMORY.md"
EVERYWHERE = {
    "/etc/claude-code/CLAUDE.md": "managed",
    "/etc/claude-code/.claude/rules/m.md": "managed rule",
    "/home/dev/.claude/CLAUDE.md": "user",
    "/home/dev/.claude/rules/u.md": "user rule",
    "/home/CLAUDE.md": "home",
    "/home/dev/CLAUDE.local.md": "above, local",
    "CLAUDE.md": "project",
    ".claude/CLAUDE.md": "dot",
    ".claude/rules/r.md": "rule",
    "CLAUDE.local.md": "local",
    INDEX: "index",
}
IN_ORDER = [
    ("/etc/claude-code/CLAUDE.md", "Managed"),
    ("/etc/claude-code/.claude/rules/m.md", "Managed"),
    ("/home/dev/.claude/CLAUDE.md", "User"),
    ("/home/dev/.claude/rules/u.md", "User"),
    ("/home/CLAUDE.md", "Project"),
    ("/home/dev/CLAUDE.local.md", "Local"),
    (f"{PROJECT}/CLAUDE.md", "Project"),
    (f"{PROJECT}/.claude/CLAUDE.md", "Project"),
    (f"{PROJECT}/.claude/rules/r.md", "Project"),
    (f"{PROJECT}/CLAUDE.local.md", "Local"),
    (INDEX, "AutoMem"),
]


def typed(tree):
    return [(file.path, file.level.type) for file in tree.load().files]


def test_levels_load_lowest_priority_first():
    assert typed(project(EVERYWHERE)) == IN_ORDER


def test_the_root_itself_is_left_out():
    assert typed(Tree({"/CLAUDE.md": "root", "/a/CLAUDE.md": "a"}, cwd="/a")) == [("/a/CLAUDE.md", "Project")]
    assert typed(Tree({"/CLAUDE.md": "root"}, cwd="/")) == []


@pytest.mark.parametrize(
    "name", ["claude.md", "Claude.md", "CLAUDE.MD", "CLAUDE.txt", ".claude/claude.md", "claude.local.md"]
)
def test_other_spellings_are_other_files(name):
    assert typed(project({name: "x"})) == []


def test_memory_that_is_off_loads_nothing_and_considers_nothing():
    memory = project(EVERYWHERE).asked(enabled=False).load()
    assert (memory.files, memory.rows, memory.notices, memory.seen) == ((), (), (), ())


@pytest.mark.parametrize(
    ("sources", "gone"),
    [
        (("project", "local"), {"User"}),
        (("user", "local"), {"Project"}),
        (("user", "project"), {"Local"}),
        (("project",), {"User", "Local"}),
        ((), {"User", "Project", "Local"}),
    ],
)
def test_a_source_that_is_off_takes_its_level_away_and_says_so(sources, gone):
    tree = project(EVERYWHERE, sources=sources)
    assert typed(tree) == [(path, level) for path, level in IN_ORDER if level not in gone]
    off = {row.path for row in tree.load().rows if row.reason == "source_off"}
    assert off == {
        path if not path.endswith(("u.md", "r.md")) else path.rpartition("/")[0]
        for path, level in IN_ORDER
        if level in gone
    }
    assert {row.hint for row in tree.load().rows if row.reason == "source_off"} == {
        "Add its source to setting_sources to load it."
    }


@pytest.mark.parametrize(
    ("stop", "kept"),
    [
        ("/home", ["/home/CLAUDE.md", "/home/dev/CLAUDE.local.md"]),
        ("/home/dev", ["/home/dev/CLAUDE.local.md"]),
        ("/home/dev/../dev", ["/home/dev/CLAUDE.local.md"]),
        ("/short", ["/home/dev/CLAUDE.local.md"]),
        (PROJECT, []),
        ("/", ["/home/CLAUDE.md", "/home/dev/CLAUDE.local.md"]),
        (f"{PROJECT}/below", ["/home/CLAUDE.md", "/home/dev/CLAUDE.local.md"]),
        ("/elsewhere", ["/home/CLAUDE.md", "/home/dev/CLAUDE.local.md"]),
    ],
)
def test_the_walk_ends_at_its_stop_and_other_levels_still_load(stop, kept):
    tree = project(EVERYWHERE | {"/short": Link("/home/dev")}).asked(walk_stop=stop)
    above = {"/home/CLAUDE.md", "/home/dev/CLAUDE.local.md"}
    assert tree.paths() == [path for path, _ in IN_ORDER if path not in above or path in kept]


ADDED = {
    "/lib/CLAUDE.md": "L",
    "/lib/.claude/CLAUDE.md": "D",
    "/lib/.claude/rules/r.md": "R",
    "/lib/CLAUDE.local.md": "M",
    "/two/CLAUDE.md": "T",
}


def test_additional_directories_load_only_when_asked_for_in_the_order_given():
    tree = project({"CLAUDE.md": "p"} | ADDED, additional=("/two", "/lib"))
    assert tree.paths() == [f"{PROJECT}/CLAUDE.md"]
    assert tree.asked(from_additional_directories=True).paths() == [
        f"{PROJECT}/CLAUDE.md",
        "/two/CLAUDE.md",
        "/lib/CLAUDE.md",
        "/lib/.claude/CLAUDE.md",
        "/lib/.claude/rules/r.md",
        "/lib/CLAUDE.local.md",
    ]


def test_additional_directories_stand_before_memory_indexes():
    tree = project({INDEX: "index"} | ADDED, additional=("/two",)).asked(from_additional_directories=True)
    assert tree.paths() == ["/two/CLAUDE.md", INDEX]


def test_sources_and_excludes_hold_in_additional_directories():
    tree = project(ADDED, additional=("/lib",), sources=("local",)).asked(from_additional_directories=True)
    assert tree.paths() == ["/lib/CLAUDE.local.md"]
    assert tree.asked(exclude=("/lib/**",)).paths() == []


def test_a_directory_named_twice_loads_once_and_has_one_row_a_file():
    tree = project({"CLAUDE.md": "p"} | ADDED, additional=(PROJECT, "/two", "/two")).asked(
        from_additional_directories=True
    )
    assert tree.paths() == [f"{PROJECT}/CLAUDE.md", "/two/CLAUDE.md"]
    assert rows_of(tree.load().rows, "/two/CLAUDE.md") == [("loaded", None)]
    assert rows_of(tree.load().rows, f"{PROJECT}/CLAUDE.local.md") == [("skipped", "not_found")]


def test_bare_mode_discovers_nothing_but_additional_directories():
    tree = project(EVERYWHERE | ADDED, additional=("/two",)).asked(bare=True, team_memory_dir="/team")
    assert tree.paths() == []
    assert tree.asked(from_additional_directories=True).paths() == ["/two/CLAUDE.md"]


def test_the_home_folder_as_working_directory_yields_its_file_as_the_users_only():
    files = {"/home/dev/.claude/CLAUDE.md": "U", "/home/dev/.claude/rules/r.md": "R", "/home/dev/CLAUDE.md": "H"}
    assert typed(Tree(files, cwd="/home/dev")) == [
        ("/home/dev/.claude/CLAUDE.md", "User"),
        ("/home/dev/.claude/rules/r.md", "User"),
        ("/home/dev/CLAUDE.md", "Project"),
    ]


@pytest.mark.parametrize("cwd", ["/home/dev", "/home/dev/code/p", "/home/dev/.claude", "/home/dev/.claude/sub", "/srv"])
@pytest.mark.parametrize("config_dir", ["/home/dev/.alt", None])
def test_the_homes_own_folder_is_never_a_projects_when_the_configuration_is_elsewhere(cwd, config_dir):
    files = {
        "/home/dev/.claude/CLAUDE.md": "OLD",
        "/home/dev/.claude/CLAUDE.local.md": "OLD",
        "/home/dev/.claude/rules/r.md": "OLD",
        "/home/dev/.claude/.claude/CLAUDE.md": "OLD",
        "/home/dev/.alt/CLAUDE.md": "NEW",
    }
    tree = Tree(files, cwd=cwd, config_dir=config_dir)
    assert [file.content for file in tree.load().files] == (["NEW"] if config_dir else [])


def test_the_homes_own_folder_is_never_a_projects_when_the_user_source_is_off():
    tree = project(
        {"/home/dev/.claude/CLAUDE.md": "U", "/home/dev/.claude/rules/r.md": "R"}, sources=("project", "local")
    )
    assert typed(tree) == []
    assert tree.reason("/home/dev/.claude/CLAUDE.md") == "source_off"


def test_a_private_file_that_did_not_load_as_the_users_says_why():
    row = project({"/home/dev/.claude/CLAUDE.md": "U"}, config_dir="/home/dev/.alt").row("/home/dev/.claude/CLAUDE.md")
    assert (row.verdict, row.reason) == ("skipped", "private_folder")
    assert "user's own" in row.hint


def test_a_configuration_folder_inside_the_project_is_the_users():
    tree = project(
        {".claude/CLAUDE.md": "C", ".claude/rules/r.md": "R", "CLAUDE.md": "P"}, config_dir=f"{PROJECT}/.claude"
    )
    assert typed(tree) == [
        (f"{PROJECT}/.claude/CLAUDE.md", "User"),
        (f"{PROJECT}/.claude/rules/r.md", "User"),
        (f"{PROJECT}/CLAUDE.md", "Project"),
    ]


def test_without_home_configuration_and_managed_folder_only_the_project_loads():
    tree = project(EVERYWHERE, home=None, config_dir=None, managed_dir=None)
    assert {level for _, level in typed(tree)} == {"Project", "Local"}


REPOSITORIES = {
    "plain repository": (GitRoots("/a/r"), "/a/r/s", ["A", "R", "R rule", "R local", "S"]),
    "nested worktree": (GitRoots("/a/r/s", "/a/r"), "/a/r/s", ["A", "R local", "S"]),
    "below a nested worktree": (GitRoots("/a/r/s", "/a/r"), "/a/r/s/t", ["A", "R local", "S", "T"]),
    "sibling worktree": (GitRoots("/a/r-wt", "/a/r"), "/a/r-wt", ["A", "W"]),
    "bare parent": (GitRoots("/a/r/s", "/a/r", bare=True), "/a/r/s", ["A", "R", "R rule", "R local", "S"]),
    "submodule": (GitRoots("/a/r/s"), "/a/r/s", ["A", "R", "R rule", "R local", "S"]),
    "nested unrelated repository": (GitRoots("/a/r/s"), "/a/r/s/t", ["A", "R", "R rule", "R local", "S", "T"]),
    "main checkout named as its own": (GitRoots("/a/r", "/a/r"), "/a/r/s", ["A", "R", "R rule", "R local", "S"]),
    "no repository": (None, "/a/r/s", ["A", "R", "R rule", "R local", "S"]),
}


@pytest.mark.parametrize(("roots", "cwd", "contents"), REPOSITORIES.values(), ids=REPOSITORIES.keys())
def test_only_checked_in_copies_in_the_main_checkout_of_a_nested_worktree_are_left_out(roots, cwd, contents):
    files = {
        "/a/CLAUDE.md": "A",
        "/a/r/CLAUDE.md": "R",
        "/a/r/.claude/rules/x.md": "R rule",
        "/a/r/CLAUDE.local.md": "R local",
        "/a/r/s/CLAUDE.md": "S",
        "/a/r/s/t/CLAUDE.md": "T",
        "/a/r-wt/CLAUDE.md": "W",
    }
    tree = Tree(files, cwd=cwd, roots=roots)
    assert [file.content for file in tree.load().files] == contents
    left_out = {row.path for row in tree.load().rows if row.reason == "worktree_duplicate"}
    nested = cwd.startswith("/a/r/") and "R" not in contents
    assert left_out == ({"/a/r/CLAUDE.md", "/a/r/.claude/rules"} if nested else set())


def test_a_folder_between_the_main_checkout_and_its_nested_worktree_is_left_out_too():
    files = {"/r/CLAUDE.md": "R", "/r/.wt/CLAUDE.md": "between", "/r/.wt/f/CLAUDE.md": "F", "/CLAUDE.md": "root"}
    tree = Tree(files, cwd="/r/.wt/f", roots=GitRoots("/r/.wt/f", "/r"))
    assert [file.content for file in tree.load().files] == ["F"]


AGENTS = {
    "alone": ({"AGENTS.md": "a"}, True),
    "beside a memory file": ({"AGENTS.md": "a", "CLAUDE.md": "c"}, False),
    "beside a dot file": ({"AGENTS.md": "a", ".claude/CLAUDE.md": "c"}, False),
    "beside a local file": ({"AGENTS.md": "a", "CLAUDE.local.md": "c"}, False),
    "below a memory file": ({"AGENTS.md": "a", "/home/CLAUDE.md": "c"}, False),
    "with a user's file": ({"AGENTS.md": "a", "/home/dev/.claude/CLAUDE.md": "u"}, True),
    "with a managed file": ({"AGENTS.md": "a", "/etc/claude-code/CLAUDE.md": "m"}, True),
    "with a rule": ({"AGENTS.md": "a", ".claude/rules/x.md": "r"}, True),
    "with a folder of the name": ({"AGENTS.md": "a", "CLAUDE.md": FOLDER}, True),
}


@pytest.mark.parametrize(("files", "read"), AGENTS.values(), ids=AGENTS.keys())
def test_agents_files_stand_in_only_where_no_memory_file_is(files, read):
    tree = project(files)
    agents = f"{PROJECT}/AGENTS.md"
    assert agents not in tree.paths()
    assert (agents in tree.asked(agents_md="fallback").paths()) is read
    assert agents in tree.asked(agents_md="both").paths()


def test_an_agents_file_stands_where_a_memory_file_would_as_a_projects():
    tree = project({"AGENTS.md": "a", "CLAUDE.md": "c", ".claude/CLAUDE.md": "d", "/home/AGENTS.md": "h"}).asked(
        agents_md="both"
    )
    assert typed(tree) == [
        ("/home/AGENTS.md", "Project"),
        (f"{PROJECT}/CLAUDE.md", "Project"),
        (f"{PROJECT}/AGENTS.md", "Project"),
        (f"{PROJECT}/.claude/CLAUDE.md", "Project"),
    ]


def test_beyond_the_walks_stop_a_memory_file_does_not_stand_in_the_way_of_agents_files():
    tree = project({"AGENTS.md": "a", "/home/CLAUDE.md": "h"}).asked(agents_md="fallback", walk_stop=PROJECT)
    assert tree.paths() == [f"{PROJECT}/AGENTS.md"]


def test_both_names_of_one_file_load_once():
    tree = project({"AGENTS.md": "a", "CLAUDE.md": Link("AGENTS.md")})
    assert tree.paths() == [f"{PROJECT}/CLAUDE.md"]
    assert tree.asked(agents_md="both").paths() == [f"{PROJECT}/CLAUDE.md"]
    assert not rows_of(tree.load().rows, f"{PROJECT}/AGENTS.md")


def test_an_agents_file_that_is_off_says_how_to_load_it():
    row = project({"AGENTS.md": "a"}).row(f"{PROJECT}/AGENTS.md")
    assert (row.reason, "memory.agents_md" in row.hint) == ("agents_md_off", True)


@pytest.mark.parametrize(
    ("folder", "key"),
    [
        ("/home/dev/p", "-home-dev-p"),
        ("/t/a-b", "-t-a-b"),
        ("/t/a/b", "-t-a-b"),
        ("/t/a_b.c", "-t-a-b-c"),
        ("/t/新聞", "-t---"),
        ("/t/🦊", "-t---"),
        ("/t/🦊a👩‍🚀", "-t---a-----"),
        ("/t/\ud800", "-t--"),
        ("C:\\w\\p", "C--w-p"),
    ],
)
def test_a_projects_key_is_its_path_with_dashes(folder, key):
    assert memory_key(folder) == key


@pytest.mark.parametrize(
    ("cwd", "roots", "key"),
    [
        ("/r/sub", None, "-r-sub"),
        ("/r/sub", GitRoots("/r"), "-r"),
        ("/r-wt", GitRoots("/r-wt", "/r"), "-r"),
        ("/r/.wt/f/sub", GitRoots("/r/.wt/f", "/r"), "-r"),
        ("/fleet/child", GitRoots("/fleet/child", "/fleet", bare=True), "-fleet"),
    ],
)
def test_worktrees_and_folders_of_a_repository_share_one_index(cwd, roots, key):
    index = f"/home/dev/.claude/projects/{key}/memory/MEMORY.md"
    assert typed(Tree({index: "index"}, cwd=cwd, roots=roots)) == [(index, "AutoMem")]


def test_the_index_can_lie_elsewhere():
    tree = project({"/mem/MEMORY.md": "moved", INDEX: "index"})
    assert tree.asked(auto_memory_dir="/mem/").paths() == ["/mem/MEMORY.md"]
    assert tree.asked(auto_memory_dir="/mem", auto_memory=False).paths() == []


def test_the_callers_folder_is_stronger_than_the_settings_one():
    settings = {"/home/dev/.claude/settings.json": '{"autoMemoryDirectory": "/set"}'}
    tree = project(settings)
    assert auto_memory_dir(tree.plan()) == "/set"
    assert auto_memory_dir(tree.asked(auto_memory_dir="/asked").plan()) == "/asked"


def test_without_a_configuration_folder_there_is_no_index():
    assert auto_memory_dir(project({}, config_dir=None).plan()) is None


def test_memory_that_the_settings_turn_off_has_no_index():
    assert auto_memory_dir(project({".claude/settings.json": '{"autoMemoryEnabled": false}'}).plan()) is None


def test_the_teams_index_follows_and_has_the_same_limits():
    long = "\n".join(f"line {n}" for n in range(300))
    tree = project({INDEX: "mine", "/team/MEMORY.md": long}).asked(team_memory_dir="/team")
    assert typed(tree) == [(INDEX, "AutoMem"), ("/team/MEMORY.md", "TeamMem")]
    assert tree.load().files[1].content.startswith("line 0\n")
    assert "\nline 199\n\n> Note:" in tree.load().files[1].content


def test_an_index_is_measured_after_frontmatter_and_comments_are_gone():
    text = "---\n" + "a: b\n" * 30 + "---\n<!--\n" + "c\n" * 40 + "-->\n" + "\n".join(f"line {n}" for n in range(195))
    (file,) = project({INDEX: text}).load().files
    assert file.content == "\n".join(f"line {n}" for n in range(195))


def test_includes_in_an_index_are_told_and_not_followed():
    folder = INDEX.rpartition("/")[0]
    tree = project({INDEX: "x\n@leaf.md and @#no", f"{folder}/leaf.md": "L"})
    assert tree.paths() == [INDEX]
    row = tree.row(f"{folder}/leaf.md", INDEX)
    assert (row.verdict, row.reason, row.line) == ("skipped", "includes_not_followed", 2)


def test_an_index_is_kept_out_of_the_git_and_the_source_switches():
    assert project({INDEX: "index"}, sources=()).paths() == [INDEX]


def test_the_managed_folder_is_where_the_client_says():
    assert project({"/opt/m/CLAUDE.md": "m", f"{MANAGED}/CLAUDE.md": "x"}, managed_dir="/opt/m").paths() == [
        "/opt/m/CLAUDE.md"
    ]


def test_what_came_is_remembered_by_its_real_path():
    tree = project({"AGENTS.md": "a", "CLAUDE.md": Link("AGENTS.md"), "CLAUDE.local.md": ""})
    assert dict(tree.load().seen) == {
        f"{PROJECT}/AGENTS.md": f"{PROJECT}/CLAUDE.md",
        f"{PROJECT}/CLAUDE.local.md": f"{PROJECT}/CLAUDE.local.md",
    }


def test_rows_and_notices_of_the_settings_come_along():
    memory = project({".claude/settings.json": "{"}).load()
    assert [(row.path, row.reason) for row in memory.rows[:1]] == [
        (f"{PROJECT}/.claude/settings.json", "settings_unreadable")
    ]
    assert [notice.code for notice in memory.notices] == ["settings_unreadable"]


def test_an_exclude_that_names_a_folder_is_told_how_to_be_written():
    tree = project({f"{PROJECT}/docs/CLAUDE.md": "x"}).asked(exclude=(f"{PROJECT}/docs", f"{PROJECT}/gone/*.md"))
    told = {row.path: row.hint for row in tree.load().rows if row.reason == "exclude_never_matched"}
    assert told == {
        f"{PROJECT}/docs": f"It names a folder, and excludes fit files: write {PROJECT}/docs/**.",
        f"{PROJECT}/gone/*.md": f"There is nothing at {PROJECT}/gone: check the path.",
    }


def test_a_memory_index_that_was_cut_says_so_in_its_row():
    path = f"{HOME}/.claude/projects/-home-dev-p/memory/MEMORY.md"
    long, short = (project({path: "- a line\n" * count}).load().rows for count in (300, 3))
    assert [("cut" in (row.hint or "")) for rows in (long, short) for row in rows if row.path == path] == [True, False]


def test_an_agents_file_under_a_fallback_that_a_claude_file_ends_is_told_why():
    rows = project({f"{PROJECT}/CLAUDE.md": "c", f"{PROJECT}/AGENTS.md": "a"}).asked(agents_md="fallback").load().rows
    hints = [row.hint for row in rows if row.reason == "agents_md_off"]
    assert len(hints) == 1
    assert "set memory.agents_md to both" in hints[0]
