import pytest

from app.core.pauses import PAUSE
from app.core.rules import MOST_CHARACTERS, can_never_match, condition, globs_from, waiting


@pytest.mark.parametrize(
    ("paths", "globs"),
    [
        ("src/**/*.ts", ("src/**/*.ts",)),
        ("src/api/**, lib/api/**", ("src/api", "lib/api")),
        (" a ,, b ", ("a", "b")),
        ("a\nb\n", ("a", "b")),
        (["a", "b,c"], ("a", "b", "c")),
        ("{a,b}.ts, c", ("a.ts", "b.ts", "c")),
        ("src/*.{ts,tsx}", ("src/*.ts", "src/*.tsx")),
        ("{a,b}/{c,d}", ("a/c", "a/d", "b/c", "b/d")),
        ("{a,{b,c{1..2}}}", ("a", "b", "c1", "c2")),
        ("docs/**", ("docs",)),
        ("/docs/**", ("/docs",)),
        ("{docs,src}/**", ("docs", "src")),
        ("{a/**,b}", ("a", "b")),
        ("!docs/**", ("!docs/**",)),
        ("a/**/**", ("a/**",)),
        (["**", "a"], ("**", "a")),
        (["", "a", 7, None, {"b": "c"}, ["d"]], ("a",)),
    ],
)
def test_paths_become_patterns(paths, globs):
    assert globs_from(paths) == globs


@pytest.mark.parametrize(
    "paths",
    [None, "", "  ", ",", [], [""], ["  "], 7, 1.5, True, {"a": None}, [[["a"]]], "**", ["**", "**"], "/**", "**/**"],
)
def test_what_holds_no_pattern_is_no_condition(paths):
    assert globs_from(paths) == ()


def test_a_pattern_beyond_the_budget_is_taken_as_written_and_the_others_work():
    bomb = "{a,b}" * 10
    globs = globs_from([bomb, "lib/*.c", "{x,y}.h"])
    assert globs == (bomb, "lib/*.c", "x.h", "y.h")
    assert condition(globs).met_by("lib/a.c")
    assert not condition(globs).met_by("ab" * 5)


def test_the_budget_of_patterns_is_one_for_the_file():
    globs = globs_from(["{1..999}", "{a,b}", "{c,d}", "e"])
    assert globs[999:] == ("{a,b}", "{c,d}", "e")
    assert len(globs_from(["{1..998}", "{a,b}"])) == 1000


def test_the_budget_of_characters_is_one_for_the_file():
    long = "x" * (MOST_CHARACTERS // 100)
    sixty = f"{{1..60}}{long}"
    globs = globs_from([sixty, sixty, "{a,b}"])
    assert globs[60:] == (sixty, "a", "b")


def test_nested_lists_of_any_depth_are_no_condition():
    deep = ["a"]
    for _ in range(5_000):
        deep = [deep]
    assert globs_from(deep) == ()


@pytest.mark.parametrize(
    "glob",
    [
        "./src",
        "./src/**",
        "!./src",
        "../a",
        "~/a",
        "/home/dev/p/src",
        "!/home/dev/p/src",
        "a/../b",
        ".",
        "..",
        "C:/a",
        "c:\\a",
    ],
)
def test_dots_in_front_and_absolute_patterns_can_never_match(glob):
    assert can_never_match(glob, "/home/dev/p")
    assert not condition((glob,)).met_by("src/a")


@pytest.mark.parametrize("glob", ["src", "/src", "a/./b"[:1], ".env", "..a", "/home/other", "**/a", "c:"])
def test_other_patterns_can_match(glob):
    assert not can_never_match(glob, "/home/dev/p")


def test_at_the_root_an_anchored_pattern_can_match():
    assert not can_never_match("/src", "/")


def test_no_patterns_are_met_by_nothing():
    assert not condition(()).met_by("a")


def test_a_negated_folder_is_taken_out_of_a_folder_that_is_named_with_stars():
    rule = condition(globs_from(["src/**", "!src/gen/**", "docs/"]))
    met = [path for path in ["src/gen/a.ts", "docs/x/y.md", "src/a.ts", "a/src/b.ts"] if rule.met_by(path)]
    assert met == ["docs/x/y.md", "src/a.ts", "a/src/b.ts"]


@pytest.mark.parametrize(
    ("paths", "met", "unmet"),
    [
        (["src/", "!src/a.ts"], ["src/b.ts"], ["src/a.ts"]),
        (["src", "!src/gen/**"], ["src/a.ts"], ["src/gen/a.ts", "src/gen/b/a.ts"]),
        (["src/**", "!src/gen"], ["src/a.ts"], ["src/gen/a.ts", "src/gen"]),
        (["src/**", "!**/*.test.ts"], ["src/sub/a.ts"], ["src/a.test.ts", "src/sub/a.test.ts"]),
        (["**/*", "!**/gen/**"], ["src/a.ts"], ["src/gen/a.ts"]),
        (["src", "!src/gen", "src/gen/keep.ts"], ["src/a.ts", "src/gen/keep.ts"], ["src/gen/a.ts"]),
        (["*.ts", "src", "!src/gen"], ["a.ts", "src/a.ts"], ["src/gen/a.ts"]),
        (["!*.ts", "src"], ["src/a.ts"], ["a.ts"]),
        (["*.ts", "!gen"], ["gen/a.ts"], ["gen"]),
    ],
)
def test_the_last_pattern_that_fits_decides_also_within_a_folder(
    paths: list[str], met: list[str], unmet: list[str]
) -> None:
    rule = condition(globs_from(paths))
    assert [path for path in (*met, *unmet) if rule.met_by(path)] == met


@pytest.mark.parametrize(
    ("paths", "globs"),
    [
        ('"src/**", "lib/**"', ("src", "lib")),
        ("'src/**', lib/**", ("src", "lib")),
        ('"*.ts', ('"*.ts',)),
        ('"', ('"',)),
    ],
)
def test_patterns_of_a_list_may_each_have_quotes(paths: str, globs: tuple[str, ...]) -> None:
    assert globs_from(paths) == globs


def test_a_thousand_long_patterns_of_a_brace_all_count() -> None:
    folder = "d" * 900
    assert condition(globs_from(f"{folder}/{{1..1000}}.ts")).met_by(f"{folder}/1000.ts")


def test_of_many_faulty_patterns_a_few_are_named_and_the_rest_counted():
    globs = tuple(f"./{number}" for number in range(5)) + tuple(f"[{number}" for number in range(4))
    reason, advice = waiting(globs, condition(globs).invalid, "/home/dev/p")
    assert reason == "pattern_never_matched"
    assert advice == (
        *(f"The pattern [{number} cannot be read." for number in range(3)),
        *(f"The pattern ./{number} never matches: write {number}." for number in range(3)),
        "So it is with 3 more.",
    )


def test_a_long_faulty_pattern_is_named_by_its_beginning():
    (told,) = waiting(("[" + "a" * 500,), ("[" + "a" * 500,), "/p")[1]
    assert told == f"The pattern [{'a' * 99}… cannot be read."


@pytest.mark.parametrize(
    ("globs", "said"),
    [
        (("src\\**\\*.ts",), "parted by /"),
        (("src\\a.ts",), "parted by /"),
        (("!src/gen",), "Only negated patterns"),
        (("./src/*.ts",), "write src/*.ts"),
        (("../x",), "without dots"),
    ],
)
def test_patterns_that_fit_nothing_are_told_with_what_to_write(globs, said):
    reason, advice = waiting(globs, (), "/p")
    assert reason == "pattern_never_matched"
    assert said in " ".join(advice)


def test_of_many_faulty_patterns_a_few_are_named():
    reason, advice = waiting(tuple(f"./{'x' * 500}{number}" for number in range(50)), (), "/p")
    assert reason == "pattern_never_matched"
    assert len(advice) == 4
    assert "47" in advice[-1]
    assert max(map(len, advice)) < 400


def test_comparing_a_long_path_with_many_patterns_pauses():
    comparing = condition(tuple(f"{number}" for number in range(100))).comparing("a" * (PAUSE // 10))
    assert len(list(comparing)) == 9


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ("src/** lib/**", ("The pattern src/** lib has a blank in it: where it is two, put a comma between them.",)),
        ("*.ts *.tsx", ("The pattern *.ts *.tsx has a blank in it: where it is two, put a comma between them.",)),
        ("*.ts; *.js", ("The pattern *.ts; *.js has a ; in it: where it is two, put a comma between them.",)),
        ("*.ts;*.js", ("The pattern *.ts;*.js has a ; in it: where it is two, put a comma between them.",)),
        ("- src/**", ("The pattern - src begins with a dash: write each pattern on a line of its own below paths.",)),
        (['"src/**', "lib'"], tuple(f"The pattern {glob} has a quote too few." for glob in ('"src', "lib'"))),
        ("My Docs/a b/*.md", ()),
        ("src/a*/x;y", ()),
        ("-src/**", ()),
        ("it's/a", ()),
    ],
)
def test_a_pattern_that_looks_like_something_else_is_told_while_its_rule_waits(paths, told):
    assert waiting(globs_from(paths), (), "/p") == ("condition_not_met", told)


def test_of_many_patterns_that_look_odd_some_are_named():
    globs = tuple(f"- {number}" for number in range(5))
    assert waiting(globs, (), "/p")[1][3:] == ("So it is with 2 more.",)
