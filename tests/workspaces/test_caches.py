from __future__ import annotations

from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.document import Document
from app.workspaces.caches import OVERHEAD_BYTES, Cache, Documents


def room_for(rows: int, size: int = 10) -> int:
    return rows * (size + OVERHEAD_BYTES)


def test_what_was_asked_for_last_stays() -> None:
    cache: Cache[str, bytes] = Cache(room_for(2), len)
    cache.put("a", b"a" * 10)
    cache.put("b", b"b" * 10)
    assert cache.get("a") == b"a" * 10
    cache.put("c", b"c" * 10)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (b"a" * 10, None, b"c" * 10)


def test_what_is_larger_than_the_cache_is_not_kept_and_pushes_nothing_out() -> None:
    cache: Cache[str, bytes] = Cache(room_for(1), len)
    cache.put("a", b"a" * 10)
    cache.put("b", b"b" * 11)
    assert (cache.get("a"), cache.get("b")) == (b"a" * 10, None)


def test_a_value_takes_the_place_of_an_earlier_one() -> None:
    cache: Cache[str, bytes] = Cache(room_for(2), len)
    cache.put("a", b"old")
    cache.put("a", b"new")
    assert cache.get("a") == b"new"
    cache.put("a", b"x" * room_for(3))
    assert cache.get("a") is None
    assert cache.held_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=40))), st.integers(0, room_for(4)))
def test_a_cache_never_holds_more_than_it_may_nor_anything_but_the_last_value(
    puts: list[tuple[int, bytes]], most: int
) -> None:
    cache: Cache[int, bytes] = Cache(most, len)
    last: dict[int, bytes] = {}
    for key, value in puts:
        cache.put(key, value)
        last[key] = value
        assert cache.held_bytes <= most
    held = {key: value for key in last if (value := cache.get(key)) is not None}
    assert held.items() <= last.items()
    assert cache.held_bytes == sum(len(value) + OVERHEAD_BYTES for value in held.values())


def test_a_document_is_parsed_once() -> None:
    documents = Documents(100_000)
    first = documents.document(b"a", parsed)
    assert first == Document("a", "a")
    assert documents.document(bytes(bytearray(b"a")), parsed) is first


def test_that_bytes_are_no_text_is_remembered() -> None:
    documents = Documents(100_000)
    calls: list[bytes] = []
    for _ in range(2):
        assert documents.document(b"\0", calls.append) is None
    assert calls == [b"\0"]


def test_documents_that_do_not_fit_are_parsed_each_time() -> None:
    documents = Documents(0)
    assert documents.document(b"a", parsed) == documents.document(b"a", parsed)
    assert documents.document(b"a", parsed) is not documents.document(b"a", parsed)


def test_two_threads_that_want_one_document_have_it_parsed_once() -> None:
    documents = Documents(100_000)
    begun, go_on = Event(), Event()
    calls: list[bytes] = []
    given: list[Document | None] = []

    def slowly(data: bytes) -> Document:
        calls.append(data)
        begun.set()
        assert go_on.wait(10)
        return parsed(data)

    def ask() -> None:
        given.append(documents.document(b"a", slowly))

    first = Thread(target=ask)
    first.start()
    assert begun.wait(10)
    second = Thread(target=ask)
    second.start()
    assert documents.document(b"b", parsed) == Document("b", "b")  # others do not wait
    go_on.set()
    first.join(10)
    second.join(10)
    assert calls == [b"a"]
    assert given == [Document("a", "a")] * 2


def test_a_parser_that_fails_is_asked_again_next_time() -> None:
    documents = Documents(100_000)

    def fails(_: bytes) -> Document:
        raise MemoryError

    with pytest.raises(MemoryError):
        documents.document(b"a", fails)
    assert documents.document(b"a", parsed) == Document("a", "a")


def test_what_is_wrong_with_patterns_is_found_once() -> None:
    documents = Documents(100_000)
    calls: list[tuple[str, ...]] = []

    def find(globs: tuple[str, ...]) -> tuple[str, ...]:
        calls.append(globs)
        return globs[1:]

    assert documents.unreadable(("a", "["), find) == ("[",)
    assert documents.unreadable(("a", "["), find) == ("[",)
    assert calls == [("a", "[")]
    assert documents.unreadable(("b",), find) == ()


def parsed(data: bytes) -> Document:
    return Document(data.decode(), data.decode())
