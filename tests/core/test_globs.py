import os
import subprocess
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.globs import MOST_BRACES, NAMED, compiled, expanded
from app.core.rules import condition

NAMES = [
    "a",
    "b",
    "ab",
    "aa",
    "c",
    ".a",
    "a.b",
    "*",
    "[b",
    "{a}",
    "a ",
    " a",
    "a b",
    "#a",
    "!",
    "!a",
    "]",
    "-",
    "\\",
    "0",
]
PIECES = [
    *(
        "a",
        "b",
        "ab",
        "*",
        "**",
        "***",
        "?",
        "a*",
        "*b",
        "**a",
        "?*",
        "*.*",
        ".a",
        "{a}",
        "#a",
        "!",
        "a ",
        "a\\ ",
        " a",
    ),
    *(
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[]a]",
        "[!]a]",
        "[\\]a]",
    ),
    *(
        "[[:alpha:]]",
        "[![:digit:]x]",
        "[[:punct:]]",
        "a[!x]b",
        "a[^]x]b",
        "a[+-9]b",
        "a[!+-9]b",
        "a[[:punct:]]b",
        "\\a",
        "\\*",
    ),
]

patterns = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("/".join),
    st.sampled_from(["", "", "/"]),
)
relative_paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A folder with an empty repository that nothing but its own exclude file rules."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "--quiet")
    return folder


def git(folder, *arguments, **more):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-c", "core.ignoreCase=false", *arguments],
        check=False,
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        **more,
    )


def ignored(repository, globs, paths):
    """Which of the paths git ignores under these patterns."""
    (repository / ".git/info/exclude").write_text("\n".join(globs) + "\n")
    answer = git(
        repository, "check-ignore", "--no-index", "--stdin", "-z", input="".join(f"./{path}\0" for path in paths)
    )
    assert answer.returncode in (0, 1), answer.stderr
    return {path.removeprefix("./") for path in answer.stdout.split("\0")} - {""}


@settings(max_examples=300)
@given(st.lists(patterns, min_size=1, max_size=3), st.lists(relative_paths, min_size=20, max_size=40, unique=True))
def test_a_condition_is_met_by_what_git_ignores_but_for_what_is_taken_out_of_a_folder(repository, globs, paths):
    rule = condition(tuple(globs))
    met, by_git = {path for path in paths if rule.met_by(path)}, ignored(repository, globs, paths)
    assert met <= by_git
    above = {path: [f"{folder}/" for folder in PurePosixPath(path).parents][:-1] for path in by_git - met}
    whole = ignored(repository, globs, [folder for folders in above.values() for folder in folders])
    assert all(whole.intersection(folders) for folders in above.values())
    assert met == by_git or any(glob.startswith("!") for glob in globs)


@pytest.mark.parametrize(
    ("globs", "met", "unmet"),
    [
        (["*.md"], ["README.md", "docs/a.md", ".md"], ["a.mdx", "md"]),
        (["/*.md"], ["README.md"], ["docs/a.md"]),
        (["docs/"], ["docs/x/y.md", "a/docs/b"], ["docs", "a/docs"]),
        (["docs"], ["docs", "docs/x/y.md", "a/docs/b"], ["docsa", "adocs/b"]),
        (["/docs"], ["docs/x"], ["a/docs/x"]),
        (["src/api"], ["src/api/x", "src/api"], ["a/src/api/x"]),
        (["src/**"], ["src/a", "src/a/b"], ["a/src/b"]),
        (["**/src/**"], ["src/a", "a/src/b"], ["src"]),
        (["**"], ["a", "a/b"], []),
        (["*"], ["a", "a/b"], []),
        (["a/**/b"], ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        (["a*/b"], ["ax/b"], ["a/x/b"]),
        (["[a-c].ts"], ["b.ts"], ["d.ts", "[a-c].ts"]),
        (["src/**/*.ts", "!src/gen/**"], ["src/a.ts", "src/b/c.ts"], ["src/gen/a.ts"]),
        (["src/*", "!src/a.ts"], ["src/b.ts"], ["src/a.ts"]),
        (["!a"], [], ["a", "b"]),
        (["Src/*.TS"], ["src/a.ts", "SRC/A.TS"], []),
        (["\\!a"], ["!a"], ["a"]),
        (["\\#a"], ["#a"], []),
        (["a\\ "], ["a "], ["a"]),
        (["a   "], ["a"], ["a "]),
        (["a\nb"], ["a\nb"], ["a"]),
        (["a?c", "x*z"], ["a\nc", "x\n\nz"], ["a/c", "x/z"]),
        (["é*"], ["ÉCOLE"], []),
        (["文?.md"], ["文档.md"], []),
        (["a[!x]b"], ["acb", "a-b"], ["a/b", "axb"]),
        (["a[+-9]b"], ["a.b", "a0b", "a-b"], ["a/b", "a:b"]),
        (["x/a[!+-9]b"], ["x/acb"], ["x/a/b", "x/a5b"]),
        (["a[]-]b"], ["a]b", "a-b"], ["a/b"]),
    ],
)
def test_patterns_name_paths_as_git_ignore_has_it(globs, met, unmet):
    rule = condition(tuple(globs))
    assert [path for path in [*met, *unmet] if rule.met_by(path)] == met
    assert rule.invalid == ()


@pytest.mark.parametrize(
    "glob", ["", "/", "!", " ", "# a", "[a", "[", "[!", "a\\", "[\\", "[a-\\", "[/]", "[[:what:]]", "[[:a:]"]
)
def test_a_pattern_that_cannot_be_read_is_none_and_spares_the_others(glob):
    assert compiled(glob) is None
    rule = condition((glob, "b"))
    assert rule.invalid == (glob,)
    assert rule.met_by("b")
    assert not rule.met_by("a")


def test_a_pattern_too_large_for_the_matcher_cannot_be_read():
    assert compiled("?" * 60_000) is None


@pytest.mark.parametrize("name", NAMED)
def test_named_sets_hold_the_ascii_characters_that_git_has_in_them(repository, name):
    paths = [chr(code) for code in range(33, 127) if chr(code) not in "./"]
    pattern = compiled(f"[[:{name}:]]")
    assert {path for path in paths if pattern.matches(path)} == ignored(repository, [f"[[:{name}:]]"], paths)


def test_a_pattern_names_the_path_itself_and_not_what_is_below():
    assert compiled("a/b").matches("a/b")
    assert compiled("a/b").matches("a/b/")
    assert not compiled("a/b").matches("a/b/c")
    assert compiled("a/").matches("a/")
    assert not compiled("a/").matches("a")


@pytest.mark.parametrize(
    "glob", ["**/a/" * 12 + "x", "*a" * 20 + "b", "[a-z]*" * 50, "**/" * 200 + "b", "?*" * 500 + "x"]
)
def test_hostile_patterns_end(glob):
    rule = condition((glob,))
    assert rule.invalid == ()
    assert not rule.met_by("/".join(["!" * 30] * 30))


BRACES = [
    "a{b,c}d",
    "{a,b}/{c,d}",
    "{a,{b,c}}",
    "{a,b{1..3}}",
    "{a,{b,{c,d}},e}",
    "a{b{c,d}e,f}g",
    "{1..3}",
    "{3..1}",
    "{01..10..3}",
    "{-2..2}",
    "{a..e..2}",
    "{e..a}",
    "{1..3}{a,b}",
    "{a}",
    "{}",
    "a{}b",
    "{a,b",
    "a,b}",
    "{a,b}}",
    "{{a,b}",
    "{{a,b},c}",
    "x{,}",
    "x{,y}",
    "{1..}",
    "{..}",
    "{1...3}",
    "{x,y}{{1,2}",
    "src/{a,b}/**/*.{ts,tsx}",
    "[{a,b}]",
    "{[ab],c}",
    "{1..2147483647..1000000000}",
]


@pytest.mark.parametrize("glob", BRACES)
def test_braces_expand_as_in_bash(glob):
    shell = subprocess.run(["bash", "-c", f"set -f; printf '%s\\n' {glob}"], capture_output=True, text=True, check=True)
    assert list(expanded(glob, 1000, 100_000)) == shell.stdout.splitlines()


def test_escapes_keep_their_backslash_and_braces_behind_one_do_not_expand():
    assert expanded("\\{a,b\\}", 9, 99) == ("\\{a,b\\}",)
    assert expanded("{a\\,b,c}", 9, 99) == ("a\\,b", "c")


def test_a_pattern_without_braces_needs_no_budget():
    assert expanded("a", 0, 0) == ("a",)


@pytest.mark.parametrize(
    ("glob", "most", "characters"),
    [
        ("{a,b}", 1, 100),
        ("{a,b}", 0, 100),
        ("{aa,bb}", 10, 3),
        ("{1..100000000}", 1000, 100),
        ("{a,b}" * 60, 1000, 10**6),
        ("{" * (MOST_BRACES + 1), 1000, 10**6),
    ],
)
def test_expansion_beyond_the_budget_is_none(glob, most, characters):
    assert expanded(glob, most, characters) is None


def test_expansion_within_the_budget_is_whole():
    assert expanded("{aa,bb}", 2, 4) == ("aa", "bb")


@pytest.mark.parametrize(
    "glob", ["{" * 200, "{a," * 200, "{" * 100 + "a,b" + "}" * 100, "{,x" * 100 + "}" * 100, "{" * 99 + ",}" * 99]
)
def test_hostile_braces_end(glob):
    found = expanded(glob, 1000, 10**6)
    assert found is None or len(found) <= 1000
