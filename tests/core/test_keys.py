from __future__ import annotations

import hashlib

from app.core.keys import digest_in, hashed


def test_a_key_is_kept_as_its_hash() -> None:
    assert hashed("zweitér") == "sha256:" + hashlib.sha256("zweitér".encode()).hexdigest()


def test_what_is_a_hash_already_is_itself() -> None:
    assert hashed(hashed("key")) == hashed("key")


def test_what_only_looks_like_a_hash_is_a_key() -> None:
    assert hashed("sha256:abc") == "sha256:" + hashlib.sha256(b"sha256:abc").hexdigest()


def test_the_digest_is_that_of_the_key() -> None:
    assert digest_in(hashed("key")) == hashlib.sha256(b"key").digest()
