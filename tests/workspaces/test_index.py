"""Names that a repository tracks, read from its index."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.workspaces import index as module
from app.workspaces.index import UnclearIndexError, holds, index_bytes
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
