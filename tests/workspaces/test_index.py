"""Names that a repository tracks, read from its index."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.workspaces import index as module
from app.workspaces.index import UnclearIndexError, holds, index_bytes, leads_away
from tests.reference.programs import git

NAMES = (".claude/settings.local.json", "a/.claude/settings.local.json", "z", "x" * 5_000, "größer", "link/deep")
ABSENT = ("claude/settings.local.json", "settings.local.json", ".claude", "zz", "x" * 4_999, "deep")


def made(folder: Path, version: int, object_format: str = "sha1") -> Path:
    git(folder, "init", "--quiet", f"--object-format={object_format}")
    blob = git(folder, "hash-object", "-w", "--stdin")
    rows = b"".join(f"100644 {blob}\t{name}\0".encode() for name in NAMES)
    git(folder, "update-index", "-z", "--index-info", given=rows)
    if version == 3:
        git(folder, "update-index", "--skip-worktree", "z")
    git(folder, "update-index", "--index-version", str(version), "--force-write-index")
    return folder / ".git" / "index"


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_an_index_holds_the_names_that_are_tracked_and_no_others(
    tmp_path: Path, version: int, object_format: str
) -> None:
    data = index_bytes(str(made(tmp_path, version, object_format)))
    assert data[7] == version
    for name in NAMES:
        assert holds(data, [name], object_format)
        assert holds(data, ["absent", name.encode().upper().decode()], object_format)
    assert not holds(data, ABSENT, object_format)


def test_a_name_that_stands_in_another_place_is_not_held() -> None:
    head = b"DIRC\0\0\0\2\0\0\0\1" + bytes(60)
    assert holds(head + b"\0\1a\0", ["a"])
    assert not holds(head + b"\0\2ba\0", ["a"])
    assert holds(head + b"\0\3a\0b" + b"\0\1a\0", ["a"])


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"DIRC", b"PACK\0\0\0\2\0\0\0\0", b"DIRC\0\0\0\5\0\0\0\0", b"DIRC\0\0\0\4\0\0\0\1"),
        *(b"DIRC\0\0\0\4\0\0\0\1" + bytes(62) + b"\5a\0", b"DIRC\0\0\0\4\0\0\0\1" + bytes(62) + b"\0a"),
        b"DIRC\0\0\0\4\0\0\0\1" + bytes(62) + b"\xff\xff",
    ],
)
def test_what_is_no_index_is_not_guessed_at(data: bytes) -> None:
    with pytest.raises(UnclearIndexError):
        holds(data, ["a"])


def test_ids_of_another_kind_are_not_guessed_at() -> None:
    with pytest.raises(UnclearIndexError):
        holds(b"DIRC\0\0\0\2\0\0\0\0", ["a"], "sha9")


@given(st.binary(max_size=300), st.sampled_from([2, 3, 4]))
def test_any_bytes_are_read_to_an_end(data: bytes, version: int) -> None:
    try:
        assert holds(b"DIRC\0\0\0" + bytes([version]) + data, ["a"]) in (True, False)
    except UnclearIndexError:
        assert version == 4


def test_an_index_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = made(tmp_path, 2)
    monkeypatch.setattr(module, "_LARGEST_BYTES", 100)
    with pytest.raises(UnclearIndexError):
        index_bytes(str(index))


def test_a_link_in_the_place_of_an_index_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(made(tmp_path / "r", 2))
    with pytest.raises(OSError, match="link"):
        index_bytes(str(tmp_path / "link"))


def alike(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def an_index(*names: bytes, version: int = 2, id_bytes: int = 20, mode: int = 0o100644, flags: int = 0) -> bytes:
    """An index with entries of any name, as git writes it, but for the sum at its end."""
    written, before = b"", b""
    for name in names:
        is_extended = bytes(2) if flags & 0x4000 else b""
        head = bytes(24) + mode.to_bytes(4, "big") + bytes(12 + id_bytes)
        head += (flags | min(len(name), 0xFFF)).to_bytes(2, "big") + is_extended
        if version == 4:
            same = alike(name, before)
            cut = len(before) - same
            number = bytes([cut]) if cut < 128 else bytes([0x80 | (cut >> 7) - 1, cut & 0x7F])
            written += head + number + name[same:] + b"\0"
        else:
            entry = head + name
            written += entry + bytes(8 - len(entry) % 8)
        before = name
    return b"DIRC" + version.to_bytes(4, "big") + len(names).to_bytes(4, "big") + written


AWAY = (
    *(b"/etc/shadow", b"../x", b"..", b".", b"a/../../x", b"a/..", b"a/./b", b"./a", b"a//b", b"", b"a/", b"/"),
    *(b".git", b".git/config", b"a/.git/b", b"a/.GIT", b".gIt/x"),
)
BELOW = (b".gitignore", b"a/.github/x", b"...", b"a/..b/c", b"a../b", b".a", b"git", b"a.git/b", b"x" * 5_000, b"\xff")


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(("id_bytes", "object_format"), [(20, "sha1"), (32, "sha256")])
@pytest.mark.parametrize("flags", [0, 0x4000])
def test_a_name_that_is_none_below_the_checkout_leads_away(
    version: int, id_bytes: int, object_format: str, flags: int
) -> None:
    assert not leads_away(an_index(*BELOW, version=version, id_bytes=id_bytes, flags=flags), object_format)
    for name in AWAY:
        for names in ((name,), (*BELOW, name), (name, *BELOW)):
            data = an_index(*names, version=version, id_bytes=id_bytes, flags=flags)
            assert leads_away(data, object_format), name


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_no_name_of_an_index_that_git_wrote_leads_away(tmp_path: Path, version: int, object_format: str) -> None:
    assert not leads_away(index_bytes(str(made(tmp_path, version, object_format))), object_format)


@given(st.lists(st.binary(min_size=1, max_size=300).filter(lambda name: b"\0" not in name)), st.sampled_from([2, 3, 4]))
def test_an_index_leads_away_just_where_one_of_its_names_does(names: list[bytes], version: int) -> None:
    parts = {part.lower() for name in names for part in name.split(b"/")}
    assert leads_away(an_index(*names, version=version)) is not parts.isdisjoint({b"", b".", b"..", b".git"})


def test_the_folder_of_a_sparse_index_ends_with_a_slash() -> None:
    assert not leads_away(an_index(b"a/b/", mode=0o40000))
    assert leads_away(an_index(b"a/b//", mode=0o40000))
    assert leads_away(an_index(b"a/b/", mode=0o120000))


def test_an_index_that_goes_on_in_another_need_not_repeat_its_names() -> None:
    assert not leads_away(an_index(b"", b"a", version=2), is_split=True)
    assert leads_away(an_index(b"", b"../a", version=2), is_split=True)


@pytest.mark.parametrize("version", [2, 4])
def test_a_name_of_another_length_than_its_entry_says_is_not_guessed_at(version: int) -> None:
    data = an_index(b"a", b"b", version=version)
    at = data.index(b"\0\1")
    for length in (0, 2, 4):
        with pytest.raises(UnclearIndexError):
            leads_away(data[:at] + bytes([0, length]) + data[at + 2 :])


@pytest.mark.parametrize("version", [2, 4])
def test_an_index_with_fewer_entries_than_it_says_is_not_guessed_at(version: int) -> None:
    data = an_index(b"a", version=version)
    for count in (b"\0\0\0\2", b"\xff" * 4):
        with pytest.raises(UnclearIndexError):
            leads_away(data[:8] + count + data[12:])


def test_names_that_swell_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_NAMES_BYTES", 10_000)
    assert not leads_away(an_index(*[b"x" * 3_000 + bytes([number]) for number in range(1, 4)], version=4))
    with pytest.raises(UnclearIndexError):
        leads_away(an_index(*[b"x" * 3_000 + bytes([number]) for number in range(1, 9)], version=4))
