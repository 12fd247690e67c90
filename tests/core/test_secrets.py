import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.secrets import HIDDEN, MARGIN, masked, masked_part

KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"
MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-ant-api03-abcdef end", "sk-ant-api03-abcdef"),
        ("ghp_abcdefgh1234 pushed", "ghp_abcdefgh1234"),
        ("id AKIAABCDEFGHIJKL here", "AKIAABCDEFGHIJKL"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2ln end", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"),
        ("at https://me:hunter2@host/x", "me:hunter2@"),
        (f"hash {'aB3/' * 10}== end", "aB3/" * 10 + "=="),
        (f"a {KEY_BLOCK} b", KEY_BLOCK),
        ("a -----BEGIN KEY-----\ncut", "-----BEGIN KEY-----\ncut"),
        ("password=hunter2; next", "hunter2"),
        ('{"api_key": "abcd1234"}', "abcd1234"),
        (r"{\"password\": \"hunter2\"}", "hunter2\\"),
        ("DB_PASSWD_OLD : hunter2", "hunter2"),
        ("Authorization: Bearer abcd1234", "abcd1234"),
        ("AWS_SECRET_ACCESS_KEY='abcd1234'", "abcd1234"),
    ],
)
def test_a_secret_is_hidden_and_what_stands_around_it_stays(text, secret):
    assert masked(text) == text.replace(secret, HIDDEN * len(secret))


@pytest.mark.parametrize("text", ["", "You are an agent.", "desk-lamps stand", "secret: no", "https://host:80/a"])
def test_plain_text_stays(text):
    assert masked(text) == text


@given(st.text() | st.text(alphabet="sk-ant_eyJ.password: \"'\\=-/BEGIN END", max_size=200))
def test_every_character_keeps_its_place(text):
    shown = masked(text)
    assert len(shown) == len(text)
    assert all(new in {old, HIDDEN} for old, new in zip(text, shown, strict=True))


@given(st.text(alphabet="sk-ant_: password=a/", max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_a_part_is_hidden_as_in_the_whole(text, start, length):
    assert masked_part(text, start, start + length) == masked(text)[start : start + length]


def test_a_secret_that_begins_before_a_part_or_ends_behind_it_is_hidden():
    text = "x " * MARGIN + "sk-" + "a" * MARGIN + " y" * MARGIN
    assert set(masked_part(text, 3 * MARGIN - 9, 3 * MARGIN)) == {HIDDEN}


@pytest.mark.parametrize(
    "piece",
    [
        "a-",
        "a",
        "password",
        "token-",
        "secret ",
        "token \t",
        "eyJaaaaaaaa-",
        "eyJaaaaaaaa.",
        "sk-",
        "-----BEGIN",
        "-----END",
        "://",
        ":a",
        "+/",
        "api_",
    ],
)
@pytest.mark.parametrize("start", ["", "token", "-----BEGIN x-----", "://", "eyJ"])
def test_a_megabyte_of_hostile_text_is_gone_through(start, piece):
    text = start + piece * (MEGABYTE // len(piece))
    assert len(masked(text)) == len(text)


def test_a_name_before_a_megabyte_of_spaces_is_gone_through():
    assert masked("token" + " " * MEGABYTE) == "token" + " " * MEGABYTE
