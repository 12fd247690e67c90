from dataclasses import replace

import pytest

from app.core.allowance import Allowance, Limits
from app.core.attachments import attach, merged_rows
from app.core.facts import GitRoots, Touch
from app.core.flow import Look
from app.core.memory import load
from app.core.pauses import PAUSE
from app.core.report import Row
from app.workspaces.inline import Link
from tests.core.tree import PROJECT, Tree, project, rows_of


def rule(paths, text="RULE"):
    return f"---\npaths: {paths}\n---\n{text}"


def brought(tree, *touches):
    return [path.removeprefix(f"{PROJECT}/") for path in tree.brought(*touches)]


EVERYTHING = {
    "/etc/claude-code/.claude/rules/m.md": rule("*.ts"),
    "/home/dev/.claude/rules/u.md": rule("*.ts"),
    "/home/dev/.claude/rules/always.md": "up front",
    "/home/.claude/rules/h.md": rule("*.ts"),
    ".claude/rules/p.md": rule("*.ts"),
    ".claude/rules/other.md": rule("*.py"),
    "CLAUDE.md": "up front",
    "a/CLAUDE.md": "A",
    "a/.claude/CLAUDE.md": "A dot",
    "a/CLAUDE.local.md": "A local",
    "a/.claude/rules/z.md": "A rule",
    "a/.claude/rules/c.md": rule("*.ts"),
    "a/b/CLAUDE.md": "B",
    "a/b/.claude/rules/c.md": rule("/x.ts"),
    "a/b/c/CLAUDE.md": "below the file",
    "a/beside/CLAUDE.md": "beside",
}
IN_ORDER = [
    "/etc/claude-code/.claude/rules/m.md",
    "/home/dev/.claude/rules/u.md",
    "a/CLAUDE.md",
    "a/.claude/CLAUDE.md",
    "a/CLAUDE.local.md",
    "a/.claude/rules/z.md",
    "a/.claude/rules/c.md",
    "a/b/CLAUDE.md",
    "a/b/.claude/rules/c.md",
    "/home/.claude/rules/h.md",
    ".claude/rules/p.md",
]


def test_attachments_arrive_upper_rules_first_then_nested_outermost_first_then_the_projects():
    assert brought(project(EVERYTHING), f"{PROJECT}/a/b/x.ts") == IN_ORDER


def test_everything_arrives_once_however_often_it_is_touched():
    tree = project(EVERYTHING)
    assert brought(tree, f"{PROJECT}/a/b/x.ts", f"{PROJECT}/a/b/x.ts", "a/b/x.ts") == IN_ORDER
    first = tree.attach("a/b/x.ts")
    again = tree.attach("a/b/x.ts", delivered=[file.real for file in first.files])
    assert again.files == ()


def test_an_attachment_names_what_brought_it_and_its_condition():
    (file,) = project({".claude/rules/a.md": rule("'*.{ts,tsx}'")}).attach("x/y.tsx").files
    assert (file.trigger, file.globs, file.content, file.parent) == ("x/y.tsx", ("*.ts", "*.tsx"), "RULE", None)


def test_nothing_touched_brings_nothing():
    attached = project(EVERYTHING).attach()
    assert (attached.files, attached.rows) == ((), ())


def test_memory_that_is_off_brings_nothing():
    assert brought(project(EVERYTHING).asked(enabled=False), "a/b/x.ts") == []


@pytest.mark.parametrize("event", ["write", "edit", "shell"])
def test_only_the_events_asked_for_bring_anything(event):
    tree = project({".claude/rules/a.md": rule("src/**")})
    touch = Touch(f"{PROJECT}/src/new.ts", event)
    assert brought(tree, touch) == []
    assert brought(tree.asked(trigger_events=("read", event)), touch) == [".claude/rules/a.md"]
    assert brought(tree.asked(trigger_events=()), Touch("src/new.ts")) == []


def test_a_file_that_does_not_exist_yet_brings_its_folders_too():
    assert brought(project({"a/CLAUDE.md": "A"}), "a/new/deep/x.ts") == ["a/CLAUDE.md"]


@pytest.mark.parametrize("path", ["/home/dev/other/x.ts", "/x.ts", "../x.ts", PROJECT, "/home/dev/p2/x.ts"])
def test_a_file_outside_the_working_directory_brings_nothing(path):
    files = EVERYTHING | {"/home/dev/other/CLAUDE.md": "o", "/home/dev/other/.claude/rules/r.md": "r"}
    assert brought(project(files), path) == []


ADDED = {
    "/lib/CLAUDE.md": "L",
    "/lib/.claude/rules/t.md": rule("*.sql"),
    "/lib/sub/CLAUDE.md": "S",
    "/lib/sub/.claude/rules/n.md": "N",
    "/home/dev/.claude/rules/u.md": rule("*.sql"),
    "/home/.claude/rules/h.md": rule("*.sql"),
}


def test_a_file_in_an_additional_directory_brings_that_directorys_when_asked_for():
    tree = project(ADDED, additional=("/lib",))
    assert brought(tree, "/lib/sub/q.sql") == []
    asked = tree.asked(from_additional_directories=True)
    assert brought(asked, "/lib/sub/q.sql") == [
        "/lib/sub/CLAUDE.md",
        "/lib/sub/.claude/rules/n.md",
        "/lib/.claude/rules/t.md",
    ]
    assert brought(asked, "q.sql") == ["/home/dev/.claude/rules/u.md", "/home/.claude/rules/h.md"]
    assert brought(asked.asked(bare=True), "/lib/sub/q.sql") == brought(asked, "/lib/sub/q.sql")
    assert brought(asked.asked(bare=True), "q.sql") == []


@pytest.mark.parametrize(
    ("sources", "gone"),
    [
        (
            ("user", "local"),
            {path for path in IN_ORDER if not path.startswith(("/etc", "/home/dev/.claude")) and "local" not in path},
        ),
        (("user", "project"), {"a/CLAUDE.local.md"}),
        (("project", "local"), {"/home/dev/.claude/rules/u.md"}),
        ((), set(IN_ORDER) - {"/etc/claude-code/.claude/rules/m.md"}),
    ],
)
def test_sources_hold_on_demand(sources, gone):
    assert brought(project(EVERYTHING, sources=sources), "a/b/x.ts") == [path for path in IN_ORDER if path not in gone]


def test_excludes_hold_on_demand_and_are_told():
    tree = project(EVERYTHING).asked(exclude=("**/a/**", "**/u.md", "/etc/**"))
    assert brought(tree, "a/b/x.ts") == [
        "/etc/claude-code/.claude/rules/m.md",
        "/home/.claude/rules/h.md",
        ".claude/rules/p.md",
    ]
    assert rows_of(tree.attach("a/b/x.ts").rows, f"{PROJECT}/a/CLAUDE.md") == [("skipped", "excluded")]


def test_both_sides_are_compared_by_their_real_paths():
    files = {"/real/app/.claude/rules/r.md": rule("src/**"), "/real/app/src/CLAUDE.md": "S", "/link": Link("/real/app")}
    wanted = ["/real/app/src/CLAUDE.md", "/real/app/.claude/rules/r.md"]
    for cwd in ("/link", "/real/app"):
        for touched in ("/real/app/src/a.c", "/link/src/a.c"):
            assert Tree(files, cwd=cwd).brought(touched) == wanted


def test_a_touched_link_counts_as_what_it_leads_to():
    tree = project(
        {".claude/rules/r.md": rule("src/**"), "short.c": Link("src/a.c"), "src/a.c": "c", "out.c": Link("/srv/a.c")}
    )
    assert brought(tree, "short.c") == [".claude/rules/r.md"]
    assert brought(tree, "out.c") == []


def test_what_a_conditional_rule_includes_waits_and_comes_with_it():
    tree = project({".claude/rules/r.md": rule("src/**", "@../more.md"), ".claude/more.md": "MORE"})
    assert tree.paths() == []
    files = tree.attach("src/a.c").files
    assert [(file.content, file.globs, file.trigger) for file in files] == [
        ("@../more.md", ("src",), "src/a.c"),
        ("MORE", ("src",), "src/a.c"),
    ]
    assert files[1].parent == files[0].path


@pytest.mark.parametrize(
    ("paths", "fits"), [("**/*.go", True), ("m.go", True), ("/m.go", True), ("/p/m.go", False), ("dev/**", False)]
)
def test_a_users_rule_is_relative_to_the_working_directory(paths, fits):
    tree = project({"/home/dev/.claude/rules/go.md": rule(f"'{paths}'")})
    assert (tree.brought("m.go") != []) is fits


def test_a_projects_rule_is_relative_to_the_folder_that_holds_its_rules():
    tree = project({"/home/.claude/rules/r.md": rule("/dev/p/x.c"), "a/.claude/rules/r.md": rule("/x.c")})
    assert brought(tree, "x.c") == ["/home/.claude/rules/r.md"]
    assert brought(tree, "a/x.c") == ["a/.claude/rules/r.md"]


def test_a_nested_file_comes_with_what_it_includes():
    tree = project({"web/CLAUDE.md": "@AGENTS.md", "web/AGENTS.md": "W", "web/src/CLAUDE.md": "S"})
    files = tree.attach("web/src/deep/u.ts").files
    assert [file.content for file in files] == ["@AGENTS.md", "W", "S"]
    assert [file.trigger for file in files] == ["web/src/deep/u.ts"] * 3


def test_a_nested_folders_file_and_rules_come_together_and_not_again():
    files = {"r1/CLAUDE.md": "C", "r1/.claude/rules/a.md": "A", "r1/.claude/rules/b.md": rule("chart/**", "B")}
    tree = project(files)
    assert [file.content for file in tree.attach("r1/chart/v.yaml", "r1/chart/v.yaml").files] == ["C", "A", "B"]
    assert brought(tree, "r1/x", "r1/chart/v.yaml") == [
        "r1/CLAUDE.md",
        "r1/.claude/rules/a.md",
        "r1/.claude/rules/b.md",
    ]


def test_what_loaded_up_front_does_not_come_again():
    assert brought(project({"CLAUDE.md": "@a/CLAUDE.md", "a/CLAUDE.md": "A"}), "a/x") == []


def test_agents_files_come_on_demand_where_they_count():
    files = {"AGENTS.md": "root", "tests/AGENTS.md": "T"}
    assert brought(project(files), "tests/a.py") == []
    assert brought(project(files).asked(agents_md="fallback"), "tests/a.py") == ["tests/AGENTS.md"]
    linked = project(files | {"CLAUDE.md": Link("AGENTS.md")})
    assert brought(linked.asked(agents_md="fallback"), "tests/a.py") == []
    assert brought(linked.asked(agents_md="both"), "tests/a.py") == ["tests/AGENTS.md"]


def test_private_folders_bring_nothing_as_a_projects():
    files = {
        "/home/dev/.claude/CLAUDE.md": "U",
        "/home/dev/.claude/rules/r.md": rule("*"),
        "/home/dev/.alt/CLAUDE.md": "N",
    }
    tree = Tree(files, cwd="/home", config_dir="/home/dev/.alt")
    assert tree.brought("/home/dev/x.c", "/home/dev/.claude/x.c", "/home/dev/.alt/x.c") == []


def test_a_worktree_brings_no_conditional_rules_of_its_main_checkout():
    files = {"/r/.claude/rules/a.md": rule("*.c"), "/r/.wt/f/.claude/rules/a.md": rule("*.c"), "/r/.wt/f/x.c": ""}
    tree = Tree(files, cwd="/r/.wt/f", roots=GitRoots("/r/.wt/f", "/r"))
    assert tree.brought("/r/.wt/f/x.c") == ["/r/.wt/f/.claude/rules/a.md"]


def test_the_walks_stop_holds_for_rules_on_demand():
    tree = project({"/home/.claude/rules/h.md": rule("*.c"), ".claude/rules/p.md": rule("*.c")}).asked(
        walk_stop="/home/dev"
    )
    assert brought(tree, "x.c") == [".claude/rules/p.md"]


def test_a_rule_that_still_waits_has_one_row():
    attached = project({".claude/rules/a.md": rule("*.py"), ".claude/rules/b.md": b"\0"}).attach("x.c", "y.c", "z.py")
    assert rows_of(attached.rows, f"{PROJECT}/.claude/rules/a.md") == [("loaded", None)]
    waiting = project({".claude/rules/a.md": rule("*.py")}).attach("x.c", "y.c")
    assert rows_of(waiting.rows, f"{PROJECT}/.claude/rules/a.md") == [("withheld", "condition_not_met")]


def test_nested_rules_that_cannot_be_read_say_so():
    attached = project({"a/.claude/rules/b.md": b"\0"}).attach("a/x")
    assert rows_of(attached.rows, f"{PROJECT}/a/.claude/rules/b.md") == [("skipped", "not_text")]


def test_windows_paths_are_matched_with_slashes():
    files = {"C:\\w\\.claude\\rules\\r.md": rule("src/*.c"), "C:\\w\\src\\CLAUDE.md": "S"}
    tree = Tree(files, cwd="C:\\w", home=None, config_dir=None, managed_dir=None)
    assert tree.brought("C:\\w\\src\\a.c") == ["C:\\w\\src\\CLAUDE.md", "C:\\w\\.claude\\rules\\r.md"]


def test_what_a_touch_says_of_a_candidate_replaces_what_was_said_up_front():
    waits, other = Row("/a", "withheld", "condition_not_met"), Row("/b", "loaded")
    came, new = Row("/a", "loaded"), Row("/c", "loaded", parent="/a", line=1)
    assert merged_rows([waits, other], [came, new]) == (came, other, new)
    assert merged_rows([waits], []) == (waits,)


def test_the_working_directory_itself_is_not_outside():
    tree = project({f"{PROJECT}/a/CLAUDE.md": "n"})
    assert tree.attach(PROJECT).rows == ()


def test_many_touches_of_another_event_are_told_each():
    tree = project({})
    rows = tree.attach(*(Touch(f"f{number}", "edit") for number in range(900))).rows
    assert {row.reason for row in rows} == {"event_off"}
    assert len(rows) == 900


def test_a_rule_that_may_not_be_read_any_more_is_told_once():
    tree = project({"sub/.claude/rules/big.md": "x" * 11, ".claude/rules/big.md": "x" * 11}, largest=10)
    rows = [row for row in tree.attach("sub/a").rows if row.reason == "budget"]
    assert sorted(row.path for row in rows) == [
        f"{PROJECT}/.claude/rules/big.md",
        f"{PROJECT}/sub/.claude/rules/big.md",
    ]


def test_what_loaded_up_front_and_what_touches_bring_are_one_allowance():
    tree = project({".claude/rules/a.md": rule("a.py"), "sub/.claude/rules/b.md": "B", "sub/.claude/rules/c.md": "C"})
    plan = replace(tree.plan(), limits=Limits(rules=2))
    allowance, answers = Allowance.of(plan.limits), tree.answers()
    memory = answers.drive(load(plan, allowance))
    attached = answers.drive(attach(plan, memory, (), [Touch("a.py"), Touch("sub/x")], allowance))
    assert [file.content for file in attached.files] == ["RULE", "B"]
    assert [row.path for row in attached.rows if row.reason == "budget"] == [f"{PROJECT}/sub/.claude/rules"]


def questions(flow, answers):
    """All that the flow asks, each time it does."""
    question = next(flow)
    while True:
        yield question
        try:
            question = flow.send(answers.answer(question))
        except StopIteration:
            return


def test_while_a_long_path_is_compared_with_many_patterns_the_clock_is_looked_at():
    name = "a" * 4_000
    tree = project({".claude/rules/r.md": rule('"{1..1000}x"')})
    asked = list(questions(attach(tree.plan(), tree.load(), (), [Touch(name)]), tree.answers()))
    assert asked.count(Look(f"{PROJECT}/{name}")) > 1_000 * len(name) // PAUSE - 10


def test_a_file_that_is_named_often_is_looked_for_once():
    tree = project({"CLAUDE.md": "C"})
    name = "a/" * 60 + "b"
    once, often = (
        len(list(questions(attach(tree.plan(), tree.load(), (), [Touch(name)] * times), tree.answers())))
        for times in (1, 50)
    )
    assert often < once + 2 * 50
