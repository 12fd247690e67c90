import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.allowance import Limits
from app.core.attachments import merged_rows
from app.core.facts import Content, GitRoots, MemoryOptions
from app.core.memory import load
from app.core.paths import paths_for
from app.core.report import REASONS
from app.gather import Answers
from app.workspaces.inline import InlineWorkspace, Link
from tests.core.tree import FOLDER, HOME, PROJECT, Tree, inline, project, rows_of

ROOT = f"{PROJECT}/CLAUDE.md"


def loaded(tree):
    """Paths of what loaded, short where they lie in the working directory."""
    return [path.removeprefix(f"{PROJECT}/") for path in tree.paths()]


def including(text, files, **more):
    return project({"CLAUDE.md": text} | files, **more)


def reason(tree, path):
    return tree.reason(path if path.startswith("/") else f"{PROJECT}/{path}", ROOT)


def test_an_include_stands_after_its_includer_and_before_the_next_one():
    tree = including("@a.md @b.md", {"a.md": "@c.md", "b.md": "b", "c.md": "c"})
    assert loaded(tree) == ["CLAUDE.md", "a.md", "c.md", "b.md"]
    files = tree.load().files
    assert [file.parent for file in files] == [None, ROOT, f"{PROJECT}/a.md", ROOT]
    assert [file.depth for file in files] == [1, 2, 3, 2]
    assert {file.level.type for file in files} == {"Project"}


def test_an_include_takes_the_type_of_its_includer():
    tree = project({"CLAUDE.local.md": "@a.md", "a.md": "@b.md", "b.md": "b"})
    assert [file.level.type for file in tree.load().files] == ["Local"] * 3


def test_the_text_of_the_include_stays_in_the_content():
    assert including("see @a.md", {"a.md": "a"}).load().files[0].content == "see @a.md"


def test_includes_are_relative_to_the_file_they_stand_in():
    tree = including("@docs/a.md", {"docs/a.md": "@b.md @../c.md", "docs/b.md": "b", "c.md": "c"})
    assert loaded(tree) == ["CLAUDE.md", "docs/a.md", "docs/b.md", "c.md"]


@pytest.mark.parametrize(("boundary", "verdict"), [("repository", ("loaded", None)), ("cwd", ("withheld", "external"))])
def test_an_ancestors_include_loads_inside_the_repository(boundary, verdict):
    tree = Tree(
        {"/w/CLAUDE.md": "@AGENTS.md\n\nPELICAN", "/w/AGENTS.md": "HERON"},
        cwd="/w/sub",
        roots=GitRoots("/w"),
        options=MemoryOptions(include_boundary=boundary),
    )
    assert rows_of([row for row in tree.load().rows if row.parent], "/w/AGENTS.md") == [verdict]
    assert tree.paths() == (["/w/CLAUDE.md", "/w/AGENTS.md"] if boundary == "repository" else ["/w/CLAUDE.md"])


def test_dots_are_resolved_before_an_include_is_judged():
    tree = project({".claude/CLAUDE.md": "@../AGENTS.md", "AGENTS.md": "IBIS"})
    assert loaded(tree) == [".claude/CLAUDE.md", "AGENTS.md"]


def test_an_include_above_the_working_directory_is_withheld_with_advice():
    tree = including("@../x.md", {"/home/dev/x.md": "x"})
    row = tree.row("/home/dev/x.md", ROOT)
    assert (row.verdict, row.reason, row.line) == ("withheld", "external", 1)
    assert "allow_external_includes" in row.hint
    assert loaded(tree.asked(allow_external_includes=True)) == ["CLAUDE.md", "/home/dev/x.md"]


def test_a_home_ancestors_include_is_judged_alike():
    tree = Tree({"/home/dev/CLAUDE.md": "@x.md", "/home/dev/x.md": "X"}, cwd="/home/dev/code/p")
    assert tree.paths() == ["/home/dev/CLAUDE.md"]
    assert tree.reason("/home/dev/x.md", "/home/dev/CLAUDE.md") == "external"


def test_a_users_include_of_a_home_file_is_trusted_and_a_projects_is_not():
    files = {"/home/dev/.claude/CLAUDE.md": "@~/mine.md", "/home/dev/mine.md": "mine", "/home/dev/team.md": "team"}
    tree = including("@~/team.md", files)
    assert loaded(tree) == ["/home/dev/.claude/CLAUDE.md", "/home/dev/mine.md", "CLAUDE.md"]
    assert reason(tree, "/home/dev/team.md") == "external"
    assert "/home/dev/team.md" in tree.asked(allow_external_includes=True).paths()


def test_a_managed_files_include_is_trusted():
    tree = project({"/etc/claude-code/CLAUDE.md": "@/srv/policy.md", "/srv/policy.md": "policy"})
    assert [(file.path, file.level.type) for file in tree.load().files] == [
        ("/etc/claude-code/CLAUDE.md", "Managed"),
        ("/srv/policy.md", "Managed"),
    ]


def test_a_link_inside_that_leads_outside_is_external():
    tree = including(
        "@a.md @d/b.md", {"a.md": Link("/srv/a.md"), "d": Link("/srv"), "/srv/a.md": "a", "/srv/b.md": "b"}
    )
    assert loaded(tree) == ["CLAUDE.md"]
    assert reason(tree, "a.md") == "external"
    assert reason(tree, "/srv/b.md") == "external"
    assert tree.row("/srv/b.md", ROOT).tried == f"{PROJECT}/d/b.md"


def test_a_folder_outside_that_leads_inside_is_not_external():
    tree = including("@/short/a.md", {"a.md": "a", "/short": Link(PROJECT)})
    assert loaded(tree) == ["CLAUDE.md", "a.md"]


def test_a_linked_working_directory_is_compared_by_its_real_path():
    tree = Tree({"/real/CLAUDE.md": "@/link/a.md", "/real/a.md": "a", "/link": Link("/real")}, cwd="/link")
    assert tree.paths() == ["/real/CLAUDE.md", "/real/a.md"]


@pytest.mark.parametrize("word", ["flow.md:", "flow.md,", "flow.md)", "flow.md.", "flow.md!", 'flow.md"', "flow.md?"])
def test_punctuation_after_a_path_is_no_part_of_it(word):
    tree = including(f"Steps are in @{word} read first.", {"flow.md": "flow"})
    assert loaded(tree) == ["CLAUDE.md", "flow.md"]


def test_a_literal_name_with_punctuation_comes_first():
    assert loaded(including("@a.md,", {"a.md,": "comma", "a.md": "plain"})) == ["CLAUDE.md"]
    assert loaded(including("@v1.", {"v1.": "dot", "v1": "plain"})) == ["CLAUDE.md", "v1."]


def test_addresses_scopes_and_handles_are_text():
    text = "ops@example.org (@example.org) @maria @types/node @Injectable. @app.route\nUse @README for the tour."
    tree = including(text, {"README": "TOUR"})
    assert loaded(tree) == ["CLAUDE.md", "README"]
    assert tree.load().files[0].content == text
    missing = [row for row in tree.load().rows if row.parent]
    assert {row.reason for row in missing} == {"not_found", None}
    assert {row.line for row in missing} == {1, 2}


def test_words_that_can_be_no_path_are_not_considered():
    assert [row for row in including("@~/ @#part @/ @(x)", {}).load().rows if row.parent] == []


def test_a_fragment_loads_the_whole_file():
    tree = including("@guide.md#setup", {"guide.md": "# intro\nWREN\n## setup\nFINCH"})
    assert tree.load().files[1].content == "# intro\nWREN\n## setup\nFINCH"


def test_a_missing_include_stays_as_text_and_is_told():
    tree = including("@gone.md\nRAIL", {})
    assert tree.load().files[0].content == "@gone.md\nRAIL"
    row = tree.row(f"{PROJECT}/gone.md", ROOT)
    assert (row.verdict, row.reason, row.line, row.tried) == ("skipped", "not_found", 1, f"{PROJECT}/gone.md")


def test_five_levels_load_and_no_more():
    chain = {f"{n}.md": f"@{n + 1}.md {n}" for n in range(1, 7)}
    tree = including("@1.md", chain)
    assert loaded(tree) == ["CLAUDE.md", "1.md", "2.md", "3.md", "4.md"]
    assert tree.reason(f"{PROJECT}/5.md", f"{PROJECT}/4.md") == "too_deep"


def test_a_file_that_is_too_deep_in_one_chain_loads_from_a_shorter_one():
    chain = {f"{n}.md": f"@{n + 1}.md" for n in range(1, 5)} | {"5.md": "five"}
    assert loaded(including("@1.md @5.md", chain))[-1] == "5.md"


def test_cycles_end_with_each_file_once():
    tree = including("@a.md", {"a.md": "A @b.md @a.md", "b.md": "B @a.md @CLAUDE.md @b.md"})
    assert loaded(tree) == ["CLAUDE.md", "a.md", "b.md"]
    assert rows_of([row for row in tree.load().rows if row.parent == f"{PROJECT}/b.md"], ROOT) == [
        ("skipped", "already_loaded")
    ]


def test_code_includes_nothing_and_an_open_fence_is_told():
    text = "```\n@x.md\n```\n~~~\n@x.md\n~~~\n- ```\n  @x.md\n  ```\n\n``@x.md`` a ` tick\n\n@real.md"
    assert loaded(including(text, {"x.md": "x", "real.md": "r"})) == ["CLAUDE.md", "real.md"]
    tree = including("---\na: b\n---\ntext\n```\n@real.md", {"real.md": "r"})
    assert loaded(tree) == ["CLAUDE.md"]
    assert tree.row(ROOT).hint == "Line 5: a code fence never closes; what follows is code."


def test_comments_include_nothing():
    text = "<!--\n@old.md\n-->\nKeep <!-- @inline.md --> this\n```\n<!-- shown -->\n```"
    tree = including(text, {"old.md": "o", "inline.md": "i"})
    assert loaded(tree) == ["CLAUDE.md"]
    assert tree.load().files[0].content == "Keep <!-- @inline.md --> this\n```\n<!-- shown -->\n```"


def test_an_open_comment_is_kept_and_told():
    tree = project({"CLAUDE.md": "<!-- never closed\nRULE-1"})
    assert tree.load().files[0].content == "<!-- never closed\nRULE-1"
    assert tree.row(ROOT).hint == "Line 1: a comment opens and never closes; add -->."


@pytest.mark.parametrize(
    "name", ["package.json", "Makefile", ".env", ".gitignore", "a.MD", "a.mdx", "a.jsonc", "main.tf", "a.nim"]
)
def test_text_of_many_kinds_is_included(name):
    assert loaded(including(f"@{name}", {name: "text"})) == ["CLAUDE.md", name]


@pytest.mark.parametrize(
    "name", ["logo.png", "data.bin", "id.pem", "a.key", "a.gz", "a.pdf", "a.docx", "a.ipynb", "a.svg", "x.wasm"]
)
def test_other_kinds_are_refused(name):
    tree = including(f"@{name}", {name: "text"})
    assert loaded(tree) == ["CLAUDE.md"]
    assert reason(tree, name) == "not_text"


def test_a_text_name_that_leads_to_another_kind_is_refused():
    tree = including("@notes.md", {"notes.md": Link("id.pem"), "id.pem": "key"})
    assert reason(tree, "notes.md") == "not_text"


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (FOLDER, "is_directory"),
        (Link("nowhere"), "dangling_link"),
        (Link("x.md"), "dangling_link"),
        (b"a\0b", "not_text"),
        ("x" * 101, "budget"),
        (" \n\t", "empty"),
        ("---\na: b\n---\n", "empty"),
        ("<!-- only -->\n", "empty"),
    ],
)
def test_an_include_that_cannot_load_says_why(file, why):
    tree = including("@x.md", {"x.md": file}, largest=100)
    assert loaded(tree) == ["CLAUDE.md"]
    assert reason(tree, "x.md") == why


@pytest.mark.parametrize("path", [".git/config", ".git", "sub/.git/HEAD", "linked"])
def test_git_metadata_is_never_included(path):
    files = {".git/config": "url = secret", "sub/.git/HEAD": "ref", "linked": Link(".git/config")}
    tree = including(f"@{path}", files).asked(allow_external_includes=True)
    assert loaded(tree) == ["CLAUDE.md"]
    assert reason(tree, path) in {"git_metadata", "is_directory"}


def test_an_escaped_space_is_part_of_the_path():
    assert loaded(including("@my\\ notes.md", {"my notes.md": "n"})) == ["CLAUDE.md", "my notes.md"]


@pytest.mark.parametrize(
    ("text", "files", "form"),
    [
        ("@my notes.md", {"my notes.md": "n"}, "@my\\ notes.md"),
        ("@docs/my notes.md", {"docs/my notes.md": "n"}, "@docs/my\\ notes.md"),
    ],
)
def test_a_path_cut_at_a_space_is_told(text, files, form):
    tree = including(text, files)
    (hint,) = [row.hint for row in tree.load().rows if row.parent and row.reason == "not_found"]
    assert f"write {form} " in hint


def test_a_path_relative_to_the_wrong_folder_is_told():
    tree = including("@docs/a.md", {"docs/a.md": "@docs/b.md @c\\ d.md @e f", "docs/b.md": "b", "c d.md": "c"})
    hints = [row.hint for row in tree.load().rows if row.parent == f"{PROJECT}/docs/a.md"]
    assert [re.search(r"@\S.*", hint)[0] if hint else None for hint in hints] == ["@b.md.", "@../c\\ d.md.", None]


@pytest.mark.parametrize("text", ["@~/gone.md", "@/gone.md", "@gone", "@my gone.md"])
def test_a_path_that_is_nowhere_gets_no_advice(text):
    (row,) = [row for row in including(text, {}).load().rows if row.parent]
    assert (row.reason, row.hint) == ("not_found", None)


def test_each_path_counts_once_in_a_file_however_it_is_written():
    tree = including("@a.md @./a.md @d/../a.md @a.md#x @a.md, @e/a.md", {"a.md": "a", "e": Link(".")})
    assert loaded(tree) == ["CLAUDE.md", "a.md"]
    about = [(row.path, row.verdict) for row in tree.load().rows if row.parent]
    assert about == [(f"{PROJECT}/a.md", "loaded"), (f"{PROJECT}/e/a.md", "skipped")]


def test_a_file_that_came_under_another_name_is_told_by_that_name():
    tree = including("@a.md @b.md", {"a.md": "a", "b.md": Link("a.md")})
    row = tree.row(f"{PROJECT}/b.md", ROOT)
    assert (row.reason, row.hint) == ("already_loaded", f"It came as {PROJECT}/a.md.")


def test_both_rules_that_lead_to_one_file_have_a_row():
    tree = project({".claude/rules/a.md": "a", ".claude/rules/b.md": Link("a.md")})
    assert loaded(tree) == [".claude/rules/a.md"]
    assert tree.reason(f"{PROJECT}/.claude/rules/b.md") == "already_loaded"


def test_a_linked_memory_file_keeps_its_name_and_a_linked_folder_does_not():
    tree = Tree(
        {"/real/AGENTS.md": "a", "/real/CLAUDE.md": Link("AGENTS.md"), "/home/dev/.claude": Link("/real")}, cwd="/q"
    )
    assert tree.paths() == ["/real/CLAUDE.md"]
    assert tree.row("/real/CLAUDE.md").tried == "/home/dev/.claude/CLAUDE.md"


@pytest.mark.parametrize("file", [FOLDER, Link("gone"), b"\0", "", "  \n", "<!-- c -->"])
def test_what_is_no_text_under_a_memory_files_name_is_skipped(file):
    tree = project({"CLAUDE.md": file, "CLAUDE.local.md": "local"})
    assert loaded(tree) == ["CLAUDE.local.md"]


def test_content_that_differs_from_the_disk_says_so():
    texts = {"CLAUDE.md": "plain ", ".claude/CLAUDE.md": "<!-- c -->\nx", "CLAUDE.local.md": "---\na: b\n---\nx"}
    assert [file.differs for file in project(texts).load().files] == [False, True, True]


def test_rules_stand_in_one_order_by_name_folders_at_their_place():
    names = ["b.md", "a/z.md", "a/b/c.md", "B.md", "a.md", ".h.md", "c d.md", "é.md", "a-.md"]
    tree = project({f".claude/rules/{name}": name for name in names})
    assert [path.removeprefix(".claude/rules/") for path in loaded(tree)] == [
        ".h.md",
        "B.md",
        "a/b/c.md",
        "a/z.md",
        "a-.md",
        "a.md",
        "b.md",
        "c d.md",
        "é.md",
    ]


def test_links_to_rules_are_followed_and_cycles_end():
    tree = project(
        {
            ".claude/rules/a.md": "a",
            ".claude/rules/loop": Link("../rules"),
            ".claude/rules/shared": Link("/srv/rules"),
            ".claude/rules/one.md": Link("/srv/one.md"),
            "/srv/rules/s.md": "s",
            "/srv/rules/back": Link(f"{PROJECT}/.claude/rules"),
            "/srv/one.md": "one",
        }
    )
    assert loaded(tree) == [".claude/rules/a.md", "/srv/one.md", "/srv/rules/s.md"]
    assert tree.row("/srv/one.md").tried == f"{PROJECT}/.claude/rules/one.md"


@pytest.mark.parametrize(
    ("name", "file", "why"),
    [
        ("a.MD", "x", "not_a_rule"),
        ("a.txt", "x", "not_a_rule"),
        ("a.md", Link("gone"), "dangling_link"),
        ("gone", Link("gone"), "dangling_link"),
        ("a.md", "", "empty"),
        ("a.md", b"\0", "not_text"),
    ],
)
def test_what_is_no_rule_in_a_rules_folder_says_why(name, file, why):
    assert project({f".claude/rules/{name}": file}).reason(f"{PROJECT}/.claude/rules/{name}") == why


def test_a_folder_called_like_a_rule_is_a_folder():
    assert loaded(project({".claude/rules/a.md/b.md": "b"})) == [".claude/rules/a.md/b.md"]


def test_a_file_where_the_rules_folder_should_be_is_no_rule():
    assert loaded(project({".claude/rules": "x"})) == []


@pytest.mark.parametrize(
    ("front", "why", "word"),
    [
        ("paths: src/**", "condition_not_met", None),
        ("paths: '[a'", "pattern_invalid", "[a cannot be read"),
        ("paths: ['[a', b]", "condition_not_met", "[a cannot be read"),
        ("paths: ./src/**", "pattern_never_matched", "./src never matches"),
        ("paths: [./src, '[a']", "pattern_never_matched", "[a cannot be read. The pattern ./src never matches"),
        ("paths: [./src, src]", "condition_not_met", "./src never matches"),
        (f"paths: {PROJECT}/src", "pattern_never_matched", f"{PROJECT}/src never matches"),
    ],
)
def test_a_rule_that_waits_says_what_is_wrong_with_its_patterns(front, why, word):
    row = project({".claude/rules/a.md": f"---\n{front}\n---\nRULE"}).row(f"{PROJECT}/.claude/rules/a.md")
    assert (row.verdict, row.reason) == ("withheld", why)
    assert (row.hint is None) if word is None else (word in row.hint)


@pytest.mark.parametrize("paths", ["[]", "", "''", "['  ']", "7", "'**'", "['**']"])
def test_a_rule_without_a_usable_condition_loads_and_is_reported_as_loaded(paths):
    tree = project({".claude/rules/a.md": f"---\npaths: {paths}\n---\nRULE"})
    assert [(file.content, file.globs) for file in tree.load().files] == [("RULE", ())]
    assert rows_of(tree.load().rows, f"{PROJECT}/.claude/rules/a.md") == [("loaded", None)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('---\nglobs: "**/*.kt"\nalwaysApply: false\n---\nKT', "globs"),
        ("---\napplyTo: x\n---\nKT", "applyTo"),
        ('<!-- generated -->\n---\npaths: ["**/*.go"]\n---\nGO', "very top"),
        ("---\n? [a]\n: b\n---\nX", "not valid YAML"),
        ("---\npaths: {a: b}\n---\nX", "mapping"),
        ("---\n# Heading\n---\nX", "no keys"),
        ("---\n- a\n- b\n---\nX", "no keys"),
        ("---\nSome words\n---\nX", "no keys"),
    ],
)
def test_frontmatter_without_effect_is_told(text, word):
    row = project({".claude/rules/a.md": text}).row(f"{PROJECT}/.claude/rules/a.md")
    assert row.verdict == "loaded"
    assert word in row.hint


def test_a_condition_beside_what_cannot_be_read_holds_and_the_row_says_what_is_lost():
    tree = project({".claude/rules/a.md": "---\ndescription: a\n  note: b\npaths: src/**\n---\nRULE", "src/a.c": ""})
    assert tree.paths() == []
    row = tree.row(f"{PROJECT}/.claude/rules/a.md")
    assert (row.verdict, row.reason) == ("withheld", "condition_not_met")
    assert "Line 3 is not valid YAML: description was left out." in row.hint
    assert tree.brought(f"{PROJECT}/src/a.c") == [f"{PROJECT}/.claude/rules/a.md"]
    assert tree.brought(f"{PROJECT}/a.c") == []


@pytest.mark.parametrize("block", ["", "\n", "  \n", "paths: src\n"])
def test_nothing_is_said_of_frontmatter_that_holds_nothing_or_keys(block):
    assert "no keys" not in str(project({"CLAUDE.md": f"---\n{block}---\nX"}).row(f"{PROJECT}/CLAUDE.md").hint)


@pytest.mark.parametrize("name", [".git/config", "picture.png"])
def test_no_form_is_offered_that_would_be_refused(name):
    tree = project({".claude/CLAUDE.md": f"@{name}", name: "x"})
    assert tree.row(f"{PROJECT}/.claude/{name}", f"{PROJECT}/.claude/CLAUDE.md").hint is None


CONDITIONAL = "---\npaths: src/**\n---\nB"
OWN_PATHS = "Its own paths has no effect: it comes with the file that includes it, whatever is touched."


@pytest.mark.parametrize(("includer", "told"), [(".claude/rules/a.md", False), (".claude/rules/z.md", True)])
def test_a_rule_with_a_condition_that_another_rule_includes_comes_up_front_and_the_report_says_so(includer, told):
    tree = project({includer: "Z @b.md", ".claude/rules/b.md": CONDITIONAL, "src/x.c": ""})
    path, parent = f"{PROJECT}/.claude/rules/b.md", f"{PROJECT}/{includer}"
    assert tree.paths() == [parent, path]
    assert (tree.row(path, parent).verdict, tree.row(path, parent).hint) == ("loaded", OWN_PATHS)
    row = tree.row(path)
    assert (row.verdict, row.reason) == ("skipped", "already_loaded")
    assert row.hint == (f"It came with {parent}, which includes it." if told else None)
    assert tree.brought(f"{PROJECT}/src/x.c") == []


def test_an_included_file_with_a_condition_says_that_it_has_none():
    tree = project({"CLAUDE.md": "@d.md", "d.md": CONDITIONAL})
    assert tree.row(f"{PROJECT}/d.md", f"{PROJECT}/CLAUDE.md").hint == OWN_PATHS


def test_a_rule_that_arrives_with_the_one_that_includes_it_is_not_said_to_wait():
    files = {".claude/rules/a.md": "---\npaths: lib/**\n---\n@b.md", ".claude/rules/b.md": CONDITIONAL, "lib/x": ""}
    tree = project(files)
    attached = tree.attach(f"{PROJECT}/lib/x")
    path, parent = f"{PROJECT}/.claude/rules/b.md", f"{PROJECT}/.claude/rules/a.md"
    assert [file.path for file in attached.files] == [parent, path]
    rows = {row.parent: row for row in merged_rows(tree.load().rows, attached.rows) if row.path == path}
    assert {at: (row.verdict, row.reason, row.hint) for at, row in rows.items()} == {
        None: ("skipped", "already_loaded", f"It came with {parent}, which includes it."),
        parent: ("loaded", None, OWN_PATHS),
    }


def test_paths_in_a_claude_md_have_no_effect():
    (file,) = project({"CLAUDE.md": "---\npaths: src/**\n---\nX"}).load().files
    assert (file.content, file.globs) == ("X", ())


def test_windows_trees_load_with_their_own_separators():
    tree = Tree(
        {
            "C:\\w\\CLAUDE.md": "@docs\\a.md @C:\\w\\b.md @D:\\x.md",
            "C:\\w\\docs\\a.md": "a",
            "C:\\w\\b.md": "b",
            "D:\\x.md": "x",
        },
        cwd="C:\\w",
        home=None,
        config_dir=None,
        managed_dir=None,
    )
    assert tree.paths() == ["C:\\w\\CLAUDE.md", "C:\\w\\docs\\a.md", "C:\\w\\b.md"]
    assert tree.reason("D:\\x.md", "C:\\w\\CLAUDE.md") == "external"


NAMES = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/rules/a.md",
    ".claude/rules/s/b.md",
    "AGENTS.md",
    "x.md",
    "y.png",
]
FOLDERS = ["/etc/claude-code", HOME, f"{HOME}/.claude", PROJECT, f"{PROJECT}/sub", "/srv"]
PLACES = [f"{folder}/{name}" for folder in FOLDERS for name in NAMES]
LINES = [
    *(f"@{place}" for place in PLACES),
    *(
        "@x.md",
        "@../x.md",
        "@sub/x.md",
        "@./AGENTS.md",
        "@~/x.md",
        "@gone.md",
        "@CLAUDE.md",
        "@sub",
        "<!-- @x.md -->",
        "`@x.md`",
    ),
    *("---\npaths: '*.md'\n---", "---\npaths: ./a\n---", "text"),
]
texts = st.lists(st.sampled_from(LINES), max_size=4).map("\n".join)
files = st.dictionaries(
    st.sampled_from(PLACES), texts | st.just(b"\0") | st.sampled_from(PLACES).map(Link), max_size=12
)
options = st.builds(
    MemoryOptions,
    bare=st.booleans(),
    from_additional_directories=st.booleans(),
    allow_external_includes=st.booleans(),
    exclude=st.lists(st.sampled_from(["**/x.md", "a.md", "[", f"{PROJECT}/**"]), max_size=2).map(tuple),
    agents_md=st.sampled_from(["off", "fallback", "both"]),
)
trees = st.builds(
    Tree,
    files=files,
    cwd=st.sampled_from([PROJECT, HOME, f"{HOME}/.claude", f"{PROJECT}/sub"]),
    roots=st.sampled_from([None, GitRoots(HOME), GitRoots(PROJECT, HOME)]),
    options=options,
    sources=st.sampled_from([("user", "project", "local"), ("project",), ()]),
    additional=st.sampled_from([(), ("/srv",), (PROJECT, "/srv", "/srv")]),
)


def is_consistent(files, rows):
    about = [row.candidate for row in rows]
    assert len(about) == len(set(about))
    assert sorted((file.path, file.parent or "") for file in files) == sorted(
        (row.path, row.parent or "") for row in rows if row.verdict == "loaded"
    )
    assert all((row.reason is None) is (row.verdict == "loaded") for row in rows)
    assert {row.reason for row in rows} - {None} <= REASONS.keys()
    assert len({file.real for file in files}) == len(files)


@given(trees)
def test_every_candidate_has_one_row_and_every_loaded_row_a_file(tree):
    memory = tree.load()
    is_consistent(memory.files, memory.rows)
    assert {file.real for file in memory.files} <= dict(memory.seen).keys()
    assert tree.load() == memory


@given(
    trees, st.lists(st.sampled_from([f"{PROJECT}/sub/x.md", f"{PROJECT}/x.md", "/srv/x.md", "sub/y.png"]), max_size=3)
)
def test_attachments_have_one_row_each_and_repeat_nothing(tree, touched):
    memory, attached = tree.load(), tree.attach(*touched)
    is_consistent(attached.files, attached.rows)
    assert not {file.real for file in attached.files} & dict(memory.seen).keys()


def within(limits, files):
    """What loads of the files, and the rows, when a request may take no more than that."""
    plan = replace(project(files).plan(), limits=limits)
    return project(files).drive(load(plan))


def test_rules_with_more_patterns_than_a_request_may_have_wait():
    rule = "---\npaths: [a, b, c]\n---\n"
    files = {f".claude/rules/{name}.md": rule.replace("c]", f"{name}]") for name in "xyz"} | {"CLAUDE.md": "C"}
    memory = within(Limits(patterns=6), files)
    assert [file.content for file in memory.files] == ["C"]
    assert [row.reason for row in memory.rows if ".claude/rules/" in row.path] == [
        "condition_not_met",
        "condition_not_met",
        "budget",
    ]


def test_patterns_that_several_rules_share_count_once():
    files = {f".claude/rules/{name}.md": "---\npaths: [a, b, c]\n---\nR" for name in "xyz"}
    assert "budget" not in [row.reason for row in within(Limits(patterns=3), files).rows]


def test_includes_of_notes_are_told_up_to_the_limit():
    notes = f"{HOME}/.claude/projects/-home-dev-p/memory/MEMORY.md"
    rows = within(Limits(includes=2), {notes: "@a.md @b.md @c.md @d.md"}).rows
    told = [(row.reason, row.parent) for row in rows if row.parent]
    assert told == [("includes_not_followed", notes), ("includes_not_followed", notes), ("budget", notes)]


class Closed(InlineWorkspace):
    """Files in a request, but for one folder that may not be listed."""

    def names(self, path):
        return () if path.endswith("/closed") else super().names(path)

    def read(self, path):
        return Content(None, "unreadable") if path.endswith("/closed") else super().read(path)


def test_a_folder_of_rules_that_may_not_be_listed_is_told():
    tree = project({".claude/rules/closed/a.md": "A", ".claude/rules/ok.md": "OK", ".claude/rules/none": FOLDER})
    closed = Closed(inline(tree.files), None, paths_for(PROJECT), 1000)
    memory = Answers(closed).drive(load(tree.plan()))
    assert [file.content for file in memory.files] == ["OK"]
    assert rows_of(memory.rows, f"{PROJECT}/.claude/rules/closed") == [("skipped", "unreadable")]
    assert rows_of(memory.rows, f"{PROJECT}/.claude/rules/none") == []


def test_a_listed_name_that_is_not_utf_8_is_told():
    tree = project({".claude/rules/ok.md": "OK"})

    class Odd(InlineWorkspace):
        def names(self, path):
            return (*super().names(path), "caf\ufffd.md", "gone.md")

    memory = Answers(Odd(inline(tree.files), None, paths_for(PROJECT), 1000)).drive(load(tree.plan()))
    assert rows_of(memory.rows, f"{PROJECT}/.claude/rules/caf\ufffd.md") == [("skipped", "unreadable")]
    assert rows_of(memory.rows, f"{PROJECT}/.claude/rules/gone.md") == []


def test_rules_that_lie_too_deep_are_told_and_the_others_load():
    memory = within(
        Limits(depth=1), {".claude/rules/a.md": "A", ".claude/rules/b/c.md": "C", ".claude/rules/d/e/f.md": "F"}
    )
    assert [file.content for file in memory.files] == ["A", "C"]
    assert rows_of(memory.rows, f"{PROJECT}/.claude/rules/d/e") == [("skipped", "budget")]
