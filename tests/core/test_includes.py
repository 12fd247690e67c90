import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.facts import Client, GitRoots, MemoryOptions
from app.core.includes import LONGEST, MOST_LEVELS, MOST_SHORTER, is_git_metadata, reach, targets
from app.core.levels import LEVELS, levels_at
from app.core.markdown import Mention
from app.core.paths import Paths

POSIX = Paths()
WINDOWS = Paths(windows=True)
PROJECT_LEVEL = levels_at("directory")[0]


def meant(path, folder="/p", home="/home/dev", paths=POSIX):
    return list(targets(Mention(path, 1), folder, home, paths))


@pytest.mark.parametrize(
    ("path", "tries"),
    [
        ("a.md", ["/p/a.md"]),
        ("./a.md", ["/p/a.md"]),
        ("../a.md", ["/a.md"]),
        ("../../../a.md", ["/a.md"]),
        ("docs/../a.md", ["/p/a.md"]),
        ("/x/a.md", ["/x/a.md"]),
        ("//x/a.md", ["/x/a.md"]),
        ("~/a.md", ["/home/dev/a.md"]),
        (".env", ["/p/.env"]),
        ("_a", ["/p/_a"]),
        ("-a", ["/p/-a"]),
        ("1.md", ["/p/1.md"]),
        ("README", ["/p/README"]),
        ("文档.md", ["/p/文档.md"]),
        ("éa.md", ["/p/éa.md"]),
        ("types/node", ["/p/types/node"]),
        ("my\\ file.md", ["/p/my file.md"]),
        ("a.md#part", ["/p/a.md"]),
        ("a.md#b#c", ["/p/a.md"]),
        ("a.md,", ["/p/a.md,", "/p/a.md"]),
        ("a.md).", ["/p/a.md).", "/p/a.md)", "/p/a.md"]),
        ('a.md"', ['/p/a.md"', "/p/a.md"]),
        ("文档.md。", ["/p/文档.md。", "/p/文档.md"]),
        ("a\\*b.md", ["/p/a\\*b.md", "/p/a*b.md"]),
        ("a\\_b.md.", ["/p/a\\_b.md.", "/p/a_b.md.", "/p/a\\_b.md", "/p/a_b.md"]),
        ("a.md,#x", ["/p/a.md,", "/p/a.md"]),
    ],
)
def test_a_mention_means_these_paths_best_first(path, tries):
    assert meant(path) == tries


@pytest.mark.parametrize(
    "path", ["/", "//", "~", "~/", "~other/a", "#a", "@a", "(a.md)", "*", "$a", "\\a", "!", "", "?"]
)
def test_other_words_are_no_paths(path):
    assert meant(path) == []


def test_without_a_home_its_paths_mean_nothing():
    assert meant("~/a.md", home=None) == []


@pytest.mark.parametrize(
    ("path", "tries"),
    [
        ("C:\\Users\\me\\rules.md", ["C:\\Users\\me\\rules.md"]),
        ("c:/rules.md", ["C:\\rules.md"]),
        ("C:\\", []),
        ("\\\\server\\share\\a.md", ["\\\\server\\share\\a.md"]),
        ("docs\\a.md", ["D:\\p\\docs\\a.md"]),
        ("docs/a.md", ["D:\\p\\docs\\a.md"]),
        ("..\\a.md", ["D:\\a.md"]),
        ("~/a.md", ["D:\\home\\a.md"]),
    ],
)
def test_windows_paths_are_understood_on_windows(path, tries):
    assert meant(path, "D:\\p", "D:\\home", WINDOWS) == tries


def test_elsewhere_a_windows_path_is_a_name_that_does_not_exist():
    assert meant("C:\\Users\\me.md") == ["/p/C:\\Users\\me.md"]


def test_a_word_longer_than_any_path_means_nothing():
    assert meant("a" * LONGEST) == [f"/p/{'a' * LONGEST}"]
    assert meant("a" * (LONGEST + 1)) == []


def test_a_long_run_of_punctuation_is_tried_a_few_times():
    tries = meant("a" + "." * 1000)
    assert len(tries) == MOST_SHORTER + 2
    assert tries[-1] == "/p/a"


@given(st.text())
def test_any_word_means_absolute_normal_paths(path):
    for one in meant(path):
        assert POSIX.is_absolute(one)
        assert POSIX.normal(one) == one


def test_five_levels_are_four_includes():
    assert MOST_LEVELS == 5


@pytest.mark.parametrize("path", ["/p/.git", "/p/.git/config", "/p/sub/.GIT/HEAD", "/.git/a.md"])
def test_everything_under_a_git_folder_is_metadata(path):
    assert is_git_metadata(path, POSIX)


@pytest.mark.parametrize("path", ["/p/.gitignore", "/p/a.git/config", "/p/git/a", "/p/.github/a.md"])
def test_other_names_are_no_metadata(path):
    assert not is_git_metadata(path, POSIX)


def test_git_folders_are_found_on_windows():
    assert is_git_metadata("C:\\p\\.git\\config", WINDOWS)


def reached(place, level=PROJECT_LEVEL, roots=None, **options):
    client = Client(cwd="/w/sub", platform="linux")
    return reach(client, roots, MemoryOptions(**options), POSIX).holds(level, place)


def test_without_a_repository_includes_reach_the_working_directory():
    assert reached("/w/sub/a/b.md")
    assert not reached("/w/a.md")
    assert not reached("/w/subway/a.md")


def test_in_a_repository_includes_reach_all_of_it():
    roots = GitRoots("/w")
    assert reached("/w/a.md", roots=roots)
    assert not reached("/a.md", roots=roots)
    assert not reached("/w/a.md", roots=roots, include_boundary="cwd")


def test_a_repository_that_does_not_hold_the_working_directory_reaches_nothing():
    assert not reached("/other/a.md", roots=GitRoots("/other"))


def test_with_consent_includes_reach_everywhere():
    assert reached("/a.md", allow_external_includes=True)


@pytest.mark.parametrize("level", LEVELS, ids=[level.type for level in LEVELS])
def test_managed_and_user_files_are_trusted(level):
    assert reached("/a.md", level=level) is (level.type in {"Managed", "User"})


def test_every_name_of_a_file_must_be_within_reach():
    client = Client(cwd="/w", platform="linux")
    held = reach(client, None, MemoryOptions(), POSIX)
    assert held.holds(PROJECT_LEVEL, "/w/a.md", "/w/b.md")
    assert not held.holds(PROJECT_LEVEL, "/w/a.md", "/x/b.md")
