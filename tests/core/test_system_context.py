import pytest

from app.core.facts import GitFacts, SessionSettings
from app.core.system_context import SNAPSHOT, system_context

GIT = GitFacts(
    branch="feature",
    default_branch="main",
    status=" M app/a.py\n?? b.txt\n",
    log=("f1 six", "e2 five", "d3 four", "c4 three", "b5 two", "a6 one"),
    user="Ada",
)
NONE = SessionSettings(include_git_instructions=False)


def test_the_snapshot_has_its_parts_in_order_between_blank_lines():
    assert system_context(GIT, SessionSettings()) == (
        "gitStatus: This is the state of the git repository when the conversation started. "
        "It is a snapshot and will not update; a change that matters is told later in the conversation.\n"
        "\n"
        "Current branch: feature\n"
        "\n"
        "Main branch (you will usually use this for PRs): main\n"
        "\n"
        "Status:\n"
        " M app/a.py\n"
        "?? b.txt\n"
        "\n"
        "Recent commits:\n"
        "f1 six\n"
        "e2 five\n"
        "d3 four\n"
        "c4 three\n"
        "b5 two"
    )


@pytest.mark.parametrize("status", ["", "\n"])
def test_an_empty_status_is_clean(status):
    assert system_context(GitFacts(status=status), SessionSettings()) == f"gitStatus: {SNAPSHOT}\n\nStatus:\n(clean)"


def test_what_is_not_known_is_left_out():
    assert system_context(GitFacts(branch="x"), SessionSettings()) == f"gitStatus: {SNAPSHOT}\n\nCurrent branch: x"


def test_a_status_of_2000_characters_is_whole():
    assert system_context(GitFacts(status="x" * 2000), SessionSettings()).endswith("Status:\n" + "x" * 2000)


def test_a_longer_status_is_cut_and_says_how_to_see_the_rest():
    context = system_context(GitFacts(status="x" * 2001), SessionSettings())
    assert context.endswith(
        "Status:\n" + "x" * 2000 + "\n[cut after 2000 characters: run `git status` to see the rest]"
    )


def test_a_status_is_never_cut_within_a_character():
    context = system_context(GitFacts(status="x" * 1999 + "😀😀"), SessionSettings())
    assert "x" * 1999 + "\n[cut" in context


@pytest.mark.parametrize(
    ("git", "settings"), [(None, SessionSettings()), (GitFacts(), SessionSettings()), (GIT, NONE), (None, NONE)]
)
def test_there_is_none_without_facts_or_with_git_instructions_off(git, settings):
    assert system_context(git, settings) is None


def test_the_cache_breaker_stands_on_its_own_line_after_the_status():
    settings = SessionSettings(cache_breaker="run 7")
    assert system_context(None, settings) == "cacheBreaker: run 7"
    assert system_context(GitFacts(branch="x"), settings).endswith("Current branch: x\ncacheBreaker: run 7")
    assert system_context(None, SessionSettings(cache_breaker="")) is None
