"""A repository's configuration: what is read of it, and what git is told."""

from __future__ import annotations

import pytest

from app.workspaces.configuration import settings_in, told_to_git, user_in, uses_worktree_config


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("key = a # b", "a"),
        ("key = a;b", "a"),
        ('key = "a # b" ; c', "a # b"),
        (r'key = "a\" # b" # c', r"a\" # b"),
        (r"key = a\"b # c", r"a\"b"),
        ("key # = a", "true"),
        ("key =", ""),
        ("key = A\r", "a"),
    ],
)
def test_a_value_ends_where_its_comment_begins(line: str, value: str) -> None:
    assert dict(settings_in(f"[one]\n{line}\n")) == {"one.key": value}


def test_a_long_run_of_spaces_is_read_like_a_short_one() -> None:
    spaces = " " * 1_000_000
    assert dict(settings_in(f"[one]{spaces}\nkey ={spaces}a{spaces}b # c\nother{spaces}x")) == {
        "one.key": f"a{spaces}b"
    }


def test_git_is_told_short_words_of_known_keys_only() -> None:
    told = told_to_git(
        "[core]\nfileMode = false\neol = x y\nabbrev = 12\nfsmonitor = /bin/evil\nbare = true\nworktree = /\n"
        '[filter "x"]\nclean = evil\n[extensions]\nobjectFormat = sha256\n[include]\npath = more\n'
        "[status]\nshowUntrackedFiles = /etc\n",
        bare=False,
    )
    assert dict(settings_in(told)) == {
        "core.filemode": "false",
        "core.abbrev": "12",
        "core.bare": "false",
        "extensions.objectformat": "sha256",
    }


def test_a_worktree_has_a_configuration_of_its_own_when_it_says_so() -> None:
    assert uses_worktree_config("[extensions]\nworktreeConfig\n")
    assert not uses_worktree_config("[extensions]\nworktreeConfig = false\n")
    assert not uses_worktree_config("")


def test_of_the_user_only_the_user_is_kept() -> None:
    config = '[core]\nname = a\n[User] email = b\n\tname = "c # \\" d"\n[user "x"]\nname = e\n[remote "r"]\nurl = f\n'
    assert user_in(config) == '[User] email = b\n\tname = "c # \\" d"\n'
    assert user_in("") == ""
