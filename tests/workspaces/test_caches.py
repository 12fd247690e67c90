from __future__ import annotations

from collections.abc import Callable
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


def test_a_cache_says_how_often_it_was_asked_in_vain() -> None:
    cache: Cache[str, bytes] = Cache(room_for(2), len)
    cache.get("a")
    cache.put("a", b"a")
    cache.get("a")
    cache.get("a")
    assert cache.lookups == (2, 1)


def test_what_one_space_had_parsed_is_parsed_anew_for_another() -> None:
    documents = Documents(100_000)
    calls: list[str] = []

    def parse_for(space: str) -> Callable[[bytes], Document]:
        def parse(data: bytes) -> Document:
            calls.append(space)
            return parsed(data)

        return parse

    for space in ("one", "two", "", "one", "two"):
        assert documents.of(space).document(b"secret", parse_for(space)) == Document("secret", "secret")
    assert documents.document(b"secret", parse_for("none")) == Document("secret", "secret")
    assert calls == ["one", "two", ""]
    assert documents.lookups == (3, 3)


def test_what_is_wrong_with_patterns_is_found_anew_in_every_space() -> None:
    documents = Documents(100_000)
    calls: list[tuple[str, ...]] = []
    for space in ("one", "two", "one"):
        assert documents.of(space).unreadable(("[",), lambda globs: calls.append(globs) or globs) == ("[",)
    assert calls == [("[",), ("[",)]
    assert documents.pattern_lookups == (1, 2)


def test_no_space_waits_for_the_parsing_of_another() -> None:
    documents = Documents(100_000)
    begun, go_on = Event(), Event()

    def slowly(data: bytes) -> Document:
        begun.set()
        assert go_on.wait(10)
        return parsed(data)

    first = Thread(target=documents.of("one").document, args=(b"a", slowly))
    first.start()
    assert begun.wait(10)
    assert documents.of("two").document(b"a", parsed) == Document("a", "a")
    go_on.set()
    first.join(10)


def test_all_spaces_share_one_budget() -> None:
    documents = Documents(8 * OVERHEAD_BYTES)
    for number in range(100):
        documents.of(str(number)).document(b"a" * 100, parsed)
    calls: list[bytes] = []
    documents.of("0").document(b"a" * 100, calls.append)
    assert len(calls) == 1


def parsed(data: bytes) -> Document:
    return Document(data.decode(), data.decode())
