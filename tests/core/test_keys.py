from __future__ import annotations

import hashlib

import pytest

from app.core.keys import digest_in, hashed


def test_a_key_is_kept_as_its_hash() -> None:
    assert hashed("zweitér") == "sha256:" + hashlib.sha256("zweitér".encode()).hexdigest()


def test_what_is_a_hash_already_is_itself() -> None:
    assert hashed(hashed("key")) == hashed("key")


def test_a_hash_may_be_written_in_capitals() -> None:
    kept = hashed("key")
    assert hashed(kept.upper()) == hashed(f"sha256:{kept.removeprefix('sha256:').upper()}") == kept


@pytest.mark.parametrize(
    "key", ["sha256:", "sha256:abc", f"SHA256:{'0' * 63}", f"sha256:{'0' * 65}", f"sha256:{'g' * 64}"]
)
def test_what_only_begins_like_a_hash_is_refused_rather_than_taken_for_a_key(key: str) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        hashed(key)


def test_the_digest_is_that_of_the_key() -> None:
    assert digest_in(hashed("key")) == hashlib.sha256(b"key").digest()
