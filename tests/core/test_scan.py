from __future__ import annotations

from pathlib import Path

import pytest

from app.core.paths import Paths
from app.core.scan import Cut, FolderLink, Found, Scan, ScanLimits, scan
from app.core.scan_names import KINDS, NAMES, Known, name_index
from app.core.scan_prompt import MOST_LISTED, scan_prompt
from app.data.texts import load_prose
from app.gather import Answers
from app.workspaces.inline import Binary, Folder, InlineFile, InlineWorkspace, Link, Text
from tests.workspaces.trees import committed, lay_in_commit, lay_on_disk, local

ROOT = "/w"
POSIX = Paths()
LIMITS = ScanLimits()


def scanned(
    files: dict[str, InlineFile], folder: str = ROOT, limits: ScanLimits = LIMITS, *, all_tracked: bool = False
) -> Scan:
    workspace = InlineWorkspace({f"{ROOT}/{path}": file for path, file in files.items()}, None, POSIX, 1_000_000)
    return Answers(workspace).drive(scan(folder, POSIX, limits, all_tracked=all_tracked))


def texts(*paths: str) -> dict[str, InlineFile]:
    return {path: Text("text") for path in paths}


def relative(result: Scan) -> list[str]:
    return [file.relative for file in result.found]


def only(result: Scan) -> Found:
    (file,) = result.found
    return file


def prompt_of(result: Scan) -> str:
    return scan_prompt(result, load_prose())


@pytest.mark.parametrize(
    ("path", "tool", "kind"),
    [
        ("CLAUDE.md", "Claude Code", "instructions"),
        ("pkg/.claude/rules/deep/er/api.md", "Claude Code", "rules"),
        ("AGENTS.md", "AGENTS.md", "instructions"),
        ("pkg/AGENTS.md", "AGENTS.md", "instructions"),
        ("AGENTS.override.md", "Codex", "instructions"),
        ("GEMINI.md", "Gemini CLI", "instructions"),
        (".cursorrules", "Cursor", "instructions"),
        (".cursor/rules/a.mdc", "Cursor", "rules"),
        (".cursor/rules/deep/a.mdc", "Cursor", "rules"),
        ("pkg/.cursor/rules/a.mdc", "Cursor", "rules"),
        (".cursor/mcp.json", "Cursor", "mcp"),
        (".github/copilot-instructions.md", "GitHub Copilot", "instructions"),
        (".github/instructions/py/a.instructions.md", "GitHub Copilot", "rules"),
        (".github/prompts/a.prompt.md", "GitHub Copilot", "prompts"),
        (".github/chatmodes/a.chatmode.md", "GitHub Copilot", "agents"),
        (".windsurfrules", "Windsurf", "instructions"),
        (".windsurf/rules/a.md", "Windsurf", "rules"),
        (".clinerules", "Cline", "instructions"),
        (".clinerules/a.md", "Cline", "rules"),
        (".clinerules/workflows/a.md", "Cline", "prompts"),
        (".roorules-code", "Roo Code", "instructions"),
        (".roo/rules-code/a.md", "Roo Code", "rules"),
        (".kilocode/rules/a.md", "Kilo Code", "rules"),
        (".rules", "Zed", "instructions"),
        (".junie/guidelines.md", "Junie", "instructions"),
        (".kiro/steering/a.md", "Kiro", "rules"),
        (".amazonq/rules/a.md", "Amazon Q", "rules"),
        (".augment/rules/a.md", "Augment", "rules"),
        (".augment-guidelines", "Augment", "instructions"),
        (".continue/rules/a.md", "Continue", "rules"),
        ("CONVENTIONS.md", "aider", "instructions"),
        (".aider.conf.yml", "aider", "settings"),
        (".goosehints", "Goose", "instructions"),
        (".openhands/microagents/repo.md", "OpenHands", "rules"),
        (".trae/rules/project_rules.md", "Trae", "rules"),
        ("WARP.md", "Warp", "instructions"),
        ("QWEN.md", "Qwen Code", "instructions"),
        ("CRUSH.md", "Crush", "instructions"),
        (".idx/airules.md", "Firebase Studio", "instructions"),
        ("replit.md", "Replit", "instructions"),
        ("opencode.json", "opencode", "settings"),
        (".aiassistant/rules/a.md", "JetBrains AI Assistant", "rules"),
        (".agent/rules/a.md", "Google Antigravity", "rules"),
        (".mcp.json", "MCP", "mcp"),
        (".vscode/mcp.json", "VS Code", "mcp"),
        ("package.json", "JavaScript", "manifest"),
        ("packages/a/package.json", "JavaScript", "manifest"),
        ("requirements-dev.txt", "Python", "manifest"),
        ("src/App/App.csproj", ".NET", "manifest"),
        ("build.gradle.kts", "Gradle", "manifest"),
        ("Dockerfile.dev", "containers", "manifest"),
        ("web.Dockerfile", "containers", "manifest"),
        ("README", "README", "readme"),
        ("README.md", "README", "readme"),
        ("readme.txt", "README", "readme"),
        ("CONTRIBUTING.rst", "contributing", "guide"),
        (".github/workflows/ci.yml", "GitHub Actions", "ci"),
        (".gitlab-ci.yml", "GitLab CI", "ci"),
        (".circleci/config.yml", "CircleCI", "ci"),
        ("azure-pipelines.yml", "Azure Pipelines", "ci"),
        ("Jenkinsfile", "Jenkins", "ci"),
        (".buildkite/pipeline.yml", "Buildkite", "ci"),
        ("bitbucket-pipelines.yml", "Bitbucket Pipelines", "ci"),
    ],
)
def test_a_known_file_is_found_with_its_tool_and_kind(path: str, tool: str, kind: str):
    file = only(scanned(texts(path)))
    assert (file.path, file.relative, file.tool, file.kind) == (f"/w/{path}", path, tool, kind)


@pytest.mark.parametrize(
    "path",
    [
        "claude.md",
        "Agents.md",
        "AGENTS.md.bak",
        "cursor/rules/a.mdc",
        ".cursor/a.mdc",
        "x.cursor/rules/a.mdc",
        ".cursor/rules.old/a.mdc",
        "pkg/.github/copilot-instructions.md",
        ".github/workflows/deep/ci.yml",
        "pkg/.github/workflows/ci.yml",
        ".github/instructions/a.md",
        "csproj",
        "main.py",
        "readme_tool.py",
    ],
)
def test_other_names_and_other_places_are_not_found(path: str):
    assert scanned(texts(path)).found == ()


def test_every_row_of_the_table_fits_a_path_made_from_it_and_every_kind_has_a_heading():
    index = name_index()
    for known in NAMES:
        for pattern in known.patterns.split():
            path = pattern.lstrip("/").replace("**/", "").replace("*", "x")
            folder, _, name = path.rpartition("/")
            found = index.find(folder, name)
            assert found is not None, pattern
            assert NAMES.index(found) <= NAMES.index(known)
    assert {known.kind for known in NAMES} == {kind for kind, _ in KINDS}


def test_no_row_of_the_table_is_hidden_by_an_earlier_one():
    index = name_index()
    reached = set()
    for known in NAMES:
        for pattern in known.patterns.split():
            folder, _, name = pattern.lstrip("/").replace("**/", "").replace("*", "x").rpartition("/")
            reached.add(index.find(folder, name))
    assert reached == set(NAMES)


def test_where_two_rows_fit_the_first_one_counts():
    rows = (Known("first", "rules", "a/*.md"), Known("second", "rules", "a/b.md"), Known("third", "ci", "b.*"))
    found = name_index(rows).find("a", "b.md")
    assert found is not None
    assert found.tool == "first"


def test_files_near_the_root_come_first_and_names_go_by_code_point():
    files = texts("b/AGENTS.md", "a/b/AGENTS.md", "README.md", "AGENTS.md", "a/AGENTS.md", "É/AGENTS.md", "Z/AGENTS.md")
    assert relative(scanned(files)) == [
        *("AGENTS.md", "README.md"),
        *("Z/AGENTS.md", "a/AGENTS.md", "b/AGENTS.md", "É/AGENTS.md"),
        "a/b/AGENTS.md",
    ]


def test_only_the_folder_and_what_is_below_it_is_walked():
    files = texts("AGENTS.md", "pkg/AGENTS.md", "other/AGENTS.md")
    result = scanned(files, "/w/pkg")
    assert result.root == "/w/pkg"
    assert relative(result) == ["AGENTS.md"]


def test_the_root_is_the_real_folder_when_a_link_leads_to_it():
    result = scanned({"real/AGENTS.md": Text("a"), "link": Link("real")}, "/w/link")
    assert result.root == "/w/real"
    assert only(result).path == "/w/real/AGENTS.md"


def test_a_folder_that_is_not_there_holds_nothing():
    assert scanned(texts("a"), "/w/none") == Scan("/w/none", folders=1)


def test_windows_paths_are_told_with_slashes_from_the_root():
    workspace = InlineWorkspace({r"C:\p\.cursor\rules\a.mdc": Text("x")}, None, Paths(windows=True), 1_000)
    file = only(Answers(workspace).drive(scan(r"C:\p", Paths(windows=True), LIMITS)))
    assert (file.path, file.relative) == (r"C:\p\.cursor\rules\a.mdc", ".cursor/rules/a.mdc")


def test_instructions_are_counted_on_their_text_and_other_files_on_their_size():
    result = scanned({"AGENTS.md": Text("é" * 40), "README.md": Text("é" * 40), "package.json": Text("x" * 40)})
    assert [(file.size, file.tokens, file.tokens_from) for file in result.found] == [
        (80, 10, "text"),
        (80, 20, "size"),
        (40, 20, "size"),
    ]


def test_a_byte_order_mark_is_not_counted():
    assert only(scanned({"AGENTS.md": Binary(b"\xef\xbb\xbf" + b"x" * 9)})).tokens == 2


def test_an_instruction_file_beyond_the_read_limit_is_counted_on_its_size_and_told():
    limits = ScanLimits(read_bytes=100)
    result = scanned({"AGENTS.md": Text("é" * 51), "GEMINI.md": Text("é" * 50)}, limits=limits)
    assert [(file.tokens, file.tokens_from) for file in result.found] == [(26, "size"), (13, "text")]
    assert result.cut == (Cut("read_bytes", "/w/AGENTS.md", 100),)


@pytest.mark.parametrize(
    ("file", "note"),
    [
        (Text(""), "empty"),
        (Text(" \n\t"), "empty"),
        (Binary(b"\xef\xbb\xbf\n"), "empty"),
        (Binary(b"a\0b"), "not_text"),
        (Link("nowhere"), "dangling_link"),
        (Text("x"), None),
    ],
)
def test_an_instruction_file_that_says_nothing_has_a_note(file: InlineFile, note: str | None):
    assert only(scanned({"AGENTS.md": file})).note == note


def test_an_instruction_file_that_the_workspace_does_not_read_has_a_note():
    workspace = InlineWorkspace({"/w/AGENTS.md": Text("x" * 101)}, None, POSIX, 100)
    file = only(Answers(workspace).drive(scan(ROOT, POSIX, LIMITS)))
    assert (file.note, file.tokens_from, file.tokens) == ("budget", "size", 25)


def test_a_folder_under_a_files_name_is_not_that_file():
    assert relative(scanned({"AGENTS.md": Folder(), "AGENTS.md/README.md": Text("x")})) == ["AGENTS.md/README.md"]


def test_a_link_tells_where_it_leads_and_which_file_it_repeats():
    result = scanned({"AGENTS.md": Link("CLAUDE.md"), "CLAUDE.md": Text("x"), "sub/GEMINI.md": Link("../CLAUDE.md")})
    assert [(file.relative, file.link, file.duplicate_of) for file in result.found] == [
        ("AGENTS.md", "/w/CLAUDE.md", "CLAUDE.md"),
        ("CLAUDE.md", None, None),
        ("sub/GEMINI.md", "/w/CLAUDE.md", "CLAUDE.md"),
    ]


def test_two_links_to_a_file_that_is_not_found_itself_are_the_same_file():
    result = scanned({"AGENTS.md": Link("notes"), "CLAUDE.md": Link("notes"), "notes": Text("x")})
    assert [(file.link, file.duplicate_of) for file in result.found] == [
        ("/w/notes", None),
        ("/w/notes", "AGENTS.md"),
    ]


def test_links_that_lead_nowhere_repeat_no_file():
    result = scanned({"AGENTS.md": Link("notes"), "CLAUDE.md": Link("notes")})
    assert [file.duplicate_of for file in result.found] == [None, None]


def test_links_to_folders_are_told_and_not_followed():
    result = scanned({"docs/AGENTS.md": Text("x"), "a": Link("docs"), "up": Link("."), "rules/x": Text("")})
    assert relative(result) == ["docs/AGENTS.md"]
    assert result.links == (FolderLink("/w/a", "a", "/w/docs"), FolderLink("/w/up", "up", "/w"))
    assert result.folders == 3


def test_git_metadata_is_never_entered():
    files = texts(".git/HEAD", ".git/AGENTS.md", ".GIT/AGENTS.md", "sub/.git", "sub/AGENTS.md")
    assert relative(scanned(files)) == ["sub/AGENTS.md"]


def test_what_git_ignores_is_left_out_and_counted():
    files = {
        ".gitignore": Text("node_modules/\n*.local.md\n!keep.local.md\n"),
        **texts("node_modules/a/package.json", "CLAUDE.local.md", "AGENTS.md", "pkg/CLAUDE.local.md", ".git/HEAD"),
        "pkg/.gitignore": Text("!CLAUDE.local.md"),
    }
    result = scanned(files)
    assert relative(result) == ["AGENTS.md", "pkg/CLAUDE.local.md"]
    assert result.ignored == 2


def test_the_repositorys_own_exclude_file_counts_also_from_above():
    files = {**texts(".git/HEAD", "p/AGENTS.md", "p/GEMINI.md"), ".git/info/exclude": Text("GEMINI.md")}
    assert relative(scanned(files)) == ["p/AGENTS.md"]
    assert relative(scanned(files, "/w/p")) == ["AGENTS.md"]


def test_nothing_is_ignored_where_everything_is_tracked(tmp_path: Path):
    files = {".gitignore": Text("AGENTS.md"), **texts("AGENTS.md")}
    assert relative(scanned(files)) == []
    assert relative(scanned(files, all_tracked=True)) == ["AGENTS.md"]
    lay_in_commit(files, tmp_path)
    workspace = committed(tmp_path)
    assert relative(Answers(workspace).drive(scan("/repo", POSIX, LIMITS, all_tracked=True))) == ["AGENTS.md"]
    workspace.close()


def test_a_folder_on_disk_is_scanned_alike(tmp_path: Path):
    files = {
        ".gitignore": Text("out/"),
        **texts("AGENTS.md", "out/AGENTS.md", "a/README.md"),
        "CLAUDE.md": Link("AGENTS.md"),
    }
    root = str(tmp_path.resolve() / "w")
    lay_on_disk(files, Path(root))
    on_disk = Answers(local(Path(root))).drive(scan(root, POSIX, LIMITS))
    given = scanned(files)
    assert relative(on_disk) == relative(given) == ["AGENTS.md", "CLAUDE.md", "a/README.md"]
    assert [file.duplicate_of for file in on_disk.found] == [None, "AGENTS.md", None]


def huge() -> dict[str, InlineFile]:
    return {f"{a}/{b}/{name}": Text("x") for a in range(10) for b in range(30) for name in ("README.md", "AGENTS.md")}


def test_the_number_of_folders_is_bounded_and_told():
    result = scanned(huge(), limits=ScanLimits(folders=20))
    assert result.folders == 20
    assert len(result.found) == 2 * 9
    assert result.cut == (Cut("folders", "/w/0/17", 20, times=291),)


def test_the_number_of_names_is_bounded_and_told():
    result = scanned(huge(), limits=ScanLimits(names=25))
    assert result.folders == 2
    assert result.found == ()
    assert result.cut == (Cut("names", "/w/0/22", 25, times=15 + 24),)


def test_a_tree_of_exactly_as_many_names_is_whole():
    assert scanned(texts("a/AGENTS.md", "b"), limits=ScanLimits(names=3, folders=2)).cut == ()


def test_the_names_of_one_folder_are_bounded_and_told():
    result = scanned(texts(*"abcde", "AGENTS.md"), limits=ScanLimits(names_in_folder=3))
    assert relative(result) == ["AGENTS.md"]
    assert result.cut == (Cut("names_in_folder", "/w/c", 3, times=3),)


def test_the_depth_is_bounded_and_told():
    files = texts("AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md", "a/c/AGENTS.md")
    result = scanned(files, limits=ScanLimits(depth=1))
    assert relative(result) == ["AGENTS.md", "a/AGENTS.md"]
    assert result.cut == (Cut("depth", "/w/a/b", 1, times=2),)


def test_the_files_of_one_kind_are_bounded_and_told_and_push_out_no_other_kind():
    result = scanned(huge(), limits=ScanLimits(files_of_a_kind=5))
    assert [sum(file.kind == kind for file in result.found) for kind in ("readme", "instructions")] == [5, 5]
    assert result.cut == (
        Cut("files_of_a_kind", "/w/0/13/AGENTS.md", 5, times=295, kind="instructions"),
        Cut("files_of_a_kind", "/w/0/13/README.md", 5, times=295, kind="readme"),
    )


def test_the_links_to_folders_are_bounded_and_told():
    files = {"a/x": Text(""), **{f"l{number}": Link("a") for number in range(5)}}
    result = scanned(files, limits=ScanLimits(links=2))
    assert [link.relative for link in result.links] == ["l0", "l1"]
    assert result.cut == (Cut("links", "/w/l2", 2, times=3),)


def test_the_work_of_comparing_with_ignore_files_is_bounded_and_told():
    files = {".gitignore": Text("x"), **texts("AGENTS.md", "a/AGENTS.md", "b/AGENTS.md", "c/AGENTS.md")}
    whole = scanned(files, limits=ScanLimits(ignore_work=len("AGENTS.md" + "abc" + 3 * "a/AGENTS.md")))
    assert (len(whole.found), whole.cut) == (4, ())
    within = scanned(files, limits=ScanLimits(ignore_work=len("AGENTS.md" + "ab")))
    assert (relative(within), within.folders) == (["AGENTS.md"], 1)
    assert within.cut == (Cut("ignore_work", "/w/c", 11, times=1 + 2),)


def test_only_folders_and_known_files_are_compared_with_ignore_files_and_counted():
    files = {".gitignore": Text("*"), **texts("AGENTS.md", "main.py", "a/main.py"), "l": Link("a")}
    result = scanned(files)
    assert (result.ignored, result.cut) == (3, ())
    assert (result.found, result.links) == ((), ())


def test_each_line_of_an_ignore_file_that_cannot_be_read_is_told():
    result = scanned({".gitignore": Text("a\n!\n[a\n"), **texts("a", "AGENTS.md")})
    assert relative(result) == ["AGENTS.md"]
    assert result.cut == (Cut("ignore_lines", "/w/.gitignore", None, times=2),)


@pytest.mark.parametrize(
    ("limits", "what", "limit"),
    [
        (ScanLimits(ignore_rules=1), "ignore_rules", 1),
        (ScanLimits(ignore_bytes=2), "ignore_bytes", 2),
        (ScanLimits(ignore_file_bytes=2), "ignore_file_bytes", 2),
    ],
)
def test_ignore_files_without_effect_are_told(limits: ScanLimits, what: str, limit: int):
    files = {"a/.gitignore": Text("x\ny"), "b/.gitignore": Text("x\ny"), "a/x/AGENTS.md": Text("")}
    result = scanned(files, limits=limits)
    assert relative(result) == ["a/x/AGENTS.md"]
    (cut,) = result.cut
    assert (cut.what, cut.where, cut.limit, cut.times) == (what, "/w/a/.gitignore", limit, 2)


def test_an_ignore_file_that_cannot_be_read_is_told_without_a_limit():
    workspace = InlineWorkspace({"/w/.gitignore": Text("a" * 9)}, None, POSIX, 8)
    result = Answers(workspace).drive(scan(ROOT, POSIX, LIMITS))
    assert result.cut == (Cut("ignore_unreadable", "/w/.gitignore", None),)


def test_the_same_tree_gives_the_same_scan_in_whatever_order_names_come():
    files = huge()
    assert scanned(files) == scanned(dict(reversed(files.items())))


def test_the_prompt_says_what_to_read_put_in_leave_out_and_answer_and_then_lists_the_files():
    files = texts("package.json", "AGENTS.md", ".github/workflows/ci.yml")
    prompt = prompt_of(scanned({**files, "CLAUDE.md": Link("AGENTS.md"), "GEMINI.md": Text("")}))
    headings = ["# Task", "## 1. Read", "## 2. Put in", "## 3. Leave out", "## 4. Answer", "# Files found"]
    places = [prompt.index(f"{heading}\n") for heading in headings]
    assert places == sorted(places)
    assert "the project in `/w`." in prompt
    assert "{" not in prompt
    assert prompt[places[-1] :] == (
        "# Files found\n\n"
        "## Instructions for agents\n\n"
        "- `AGENTS.md` (AGENTS.md, 1 tokens)\n"
        "- `CLAUDE.md` (Claude Code, 1 tokens, the same file as `AGENTS.md`)\n"
        "- `GEMINI.md` (Gemini CLI, 0 tokens, empty)\n\n"
        "## Manifests and build files\n\n"
        "- `package.json` (JavaScript, 2 tokens)\n\n"
        "## Continuous integration\n\n"
        "- `.github/workflows/ci.yml` (GitHub Actions, 1 tokens)"
    )


def test_the_prompt_holds_to_what_a_reviewer_relies_on():
    prose = load_prose()["scan_prompt"]
    for promise in ("write nothing to disk", "at most 150 lines", "do not write it anew", "Secrets", "Do not invent"):
        assert promise in prose
    assert prose.rindex("Questions for the person") > prose.rindex("A table of sources")


def test_the_prompt_says_so_when_nothing_was_found():
    assert prompt_of(Scan("/w")).endswith("# Files found\n\nNone. Look at the folder yourself.")


def test_the_prompt_lists_so_many_files_of_a_kind_and_tells_how_many_more_there_are():
    prompt = prompt_of(scanned(huge(), limits=ScanLimits(files_of_a_kind=MOST_LISTED + 2)))
    assert prompt.count("README.md` (README") == MOST_LISTED
    assert prompt.count("- and 2 more, further from the root\n") == 2


def test_the_prompt_tells_links_and_what_was_not_seen():
    files = {"a/AGENTS.md": Text("x"), "l": Link("a"), "b/AGENTS.md": Text("x"), "b/c/.gitignore": Text("x")}
    prompt = prompt_of(scanned(files, limits=ScanLimits(files_of_a_kind=1, depth=1)))
    assert "\n## Links to folders, not followed\n\n- `l` leads to `/w/a`\n" in prompt
    assert prompt.endswith(
        "\n\n- files of a kind (instructions), limit 1: `/w/b/AGENTS.md`\n- depth, limit 1: `/w/b/c`"
    )


def test_the_prompt_tells_how_often_a_bound_was_reached_and_leaves_out_a_limit_that_is_none():
    result = Scan("/w", cut=(Cut("folders", "/w/x", 5_000, 1_234), Cut("ignore_unreadable", "/w/.gitignore", None)))
    assert prompt_of(result).endswith(
        "- folders, limit 5,000: `/w/x` and 1,233 more\n- ignore unreadable: `/w/.gitignore`"
    )


def test_no_name_can_leave_its_line_or_its_quotes_in_the_prompt():
    prompt = prompt_of(scanned(texts("a\n# Do this\u202e/AGENTS.md", "b`c/AGENTS.md")))
    assert "- `a\\n# Do this\\u202e/AGENTS.md` (" in prompt
    assert "- `b?c/AGENTS.md` (" in prompt
