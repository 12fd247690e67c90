"""What a request is for, and on which host, in every form that its first lines can have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.guard import host_in
from app.main import create_app
from app.settings import Settings
from tests.asking import CWD, inline
from tests.serving import serve
from tests.wires import Wire, connected, head, posted

OURS = "host: localhost\r\n"
ALIEN = "host: evil.example\r\n"
BODY = json.dumps(inline({f"{CWD}/CLAUDE.md": "Use tabs."})).encode()
OTHER_PROTOCOLS = {
    "h2c": {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQCAAAAAAIAAAAA"},
    "websocket": {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"},
}

NOT_HTTP, HOST_REFUSED, KEY_MISSING = (400, "not-http"), (421, "host-refused"), (401, "key-missing")
NOT_FOUND, NOT_ALLOWED, ANSWERED = (404, "not-found"), (405, "method-not-allowed"), (200, "")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve(create_app(Settings(roots=(), allowed_hosts=("strata.example",)))) as url:
        yield url


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    with serve(create_app(Settings(roots=(), api_keys=("key",)))) as url:
        yield url


def told(wire: Wire) -> tuple[int, str]:
    """The status of the next answer, and the type of its problem."""
    status, headers, body = wire.answer()
    problem = json.loads(body)["type"] if headers["content-type"] == "application/problem+json" else ""
    return status, problem.removeprefix("urn:strata:problem:")


def asked(url: str, target: str, hosts: str = OURS, method: str = "GET", version: str = "1.1") -> tuple[int, str]:
    with connected(url) as wire:
        wire.sendall(f"{method} {target} HTTP/{version}\r\n{hosts}\r\n".encode("latin-1"))
        return told(wire)


# A target in absolute form


@pytest.mark.parametrize("hosts", [OURS, ALIEN, OURS + ALIEN, ""])
@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:8787", "127.0.0.1", "[::1]:80", "strata.example"])
@pytest.mark.parametrize("scheme", ["http", "HTTP", "https"])
def test_the_host_in_a_target_counts_and_the_header_does_not(scheme: str, name: str, hosts: str, address: str) -> None:
    assert asked(address, f"{scheme}://{name}/v1/models", hosts) == ANSWERED


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "evil.example:80",
        "localhost@evil.example",
        "user@localhost",
        "user:word@localhost",
        "localhost:80@evil.example",
        "localhost.evil.example",
        "localhost%00.evil.example",
        "localhost.",
        "[::2]",
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/metrics", "/docs"])
def test_a_target_on_another_host_is_refused_whatever_the_header_says(name: str, path: str, address: str) -> None:
    assert asked(address, f"http://{name}{path}") in {HOST_REFUSED, NOT_HTTP}
    assert asked(address, f"http://localhost{path}")[0] == 200


def test_that_a_target_is_on_another_host_is_the_reason_that_is_told(address: str, locked: str) -> None:
    assert asked(address, "http://evil.example/v1/models") == HOST_REFUSED
    assert asked(locked, "http://evil.example/v1/models") == HOST_REFUSED
    assert asked(locked, "http://localhost/v1/models", ALIEN) == KEY_MISSING


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_an_answer_that_is_known_is_not_given_on_another_host(known: bool, address: str) -> None:
    with connected(address) as wire:
        for _ in range(3 if known else 0):
            wire.sendall(posted(BODY))
            assert wire.answer()[0] == 200
        wire.sendall(head(path="http://evil.example/v1/context", length=len(BODY)) + BODY)
        assert told(wire) == HOST_REFUSED
        wire.sendall(head(path="http://localhost/v1/context", length=len(BODY), host="evil.example") + BODY)
        assert told(wire) == ANSWERED


def test_each_target_on_a_connection_is_looked_at(address: str) -> None:
    targets = ["http://localhost/v1/models", "http://evil.example/v1/models", "/v1/models"]
    with connected(address) as wire:
        wire.sendall(b"".join(head("GET", target, None) for target in targets))
        assert [told(wire) for _ in targets] == [ANSWERED, HOST_REFUSED, ANSWERED]


def test_a_page_is_on_the_host_of_the_target(address: str) -> None:
    own = head("GET", "http://localhost:8787/v1/models", None, origin="http://localhost:8787", host="evil.example")
    alien = head("GET", "http://localhost:8787/v1/models", None, origin="http://evil.example", host="evil.example")
    with connected(address) as wire:
        wire.sendall(own + alien)
        assert [told(wire) for _ in range(2)] == [ANSWERED, (403, "origin-refused")]


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://a.example/b", "a.example"),
        ("HTTPS://A:1?b", "A:1"),
        ("h+t-p.1://a@b#c/", "a@b"),
        ("http:///a", ""),
        ("/http://a/", None),
        ("//a/", None),
        ("a:1", None),
        ("*", None),
        ("1http://a/", None),
    ],
)
def test_a_host_is_found_where_the_standard_has_it(target: str, host: str | None) -> None:
    assert host_in(target.encode()) == (None if host is None else host.encode())


# Other forms

UNREADABLE = {
    "no path": "http://localhost",
    "no path but a question": "http://localhost?x",
    "no path but a fragment": "http://evil.example#@localhost/v1/models",
    "no host": "http:///v1/models",
    "one slash": "http:/v1/models",
    "backslashes": "http:\\\\localhost\\v1\\models",
    "a scheme that is none": "a+b://localhost/v1/models",
    "a port that is none": "http://localhost:99999/v1/models",
    "a host": "localhost:80",
    "no slash": "v1/models",
    "a question": "?x",
    "nothing": "",
    "NUL": "/v1/models\0",
    "a tab": "/v1/mo\tdels",
    "a space": "/v1/models x",
    "no ASCII": "/v1/models\xff",
}


@pytest.mark.parametrize("target", UNREADABLE.values(), ids=UNREADABLE)
def test_a_target_that_cannot_be_read_is_refused(target: str, address: str) -> None:
    assert asked(address, target) == NOT_HTTP


@pytest.mark.parametrize("target", ["http://localhost", "localhost:80", "?x"])
@pytest.mark.parametrize("before", [head("GET", "/v1/models", None), posted(BODY), posted(BODY, path="/v1/x")])
def test_what_was_asked_before_a_target_that_cannot_be_read_has_its_own_answer(
    before: bytes, target: str, address: str
) -> None:
    bad = head("GET", target, None)
    with connected(address) as wire:
        wire.sendall(before)
        alone = wire.answer()[0]
        wire.sendall(bad)
        assert told(wire) == NOT_HTTP
        assert wire.is_closed()
    with connected(address) as wire:
        wire.sendall(before + bad)
        assert wire.answer()[0] == alone


ALIKE = ["/healthz", "/readyz", "/%68ealthz", "/healthz?x", "/healthz?/v1/models", "http://evil.example/healthz"]
OTHERS = {
    "/healthz/": NOT_FOUND,
    "//healthz": NOT_FOUND,
    "/./healthz": NOT_FOUND,
    "/v1/../healthz": NOT_FOUND,
    "/v1/%2e%2e/healthz": NOT_FOUND,
    "/healthz/../v1/models": NOT_FOUND,
    "/healthz%2f..%2fv1%2fmodels": NOT_FOUND,
    "/healthz;/v1/models": NOT_FOUND,
    "/healthz%3f": NOT_FOUND,
    "/healthz%23": NOT_FOUND,
    "/healthz%00": NOT_FOUND,
    "/HEALTHZ": NOT_FOUND,
    "//v1/models": NOT_FOUND,
    "//evil.example/healthz": NOT_FOUND,
    "/%2fhealthz": NOT_FOUND,
    "*": NOT_FOUND,
    "/v1/models": ANSWERED,
    "/v1/models?/healthz": ANSWERED,
    "/v1%2fmodels": ANSWERED,
    "/metrics": ANSWERED,
}


@pytest.mark.parametrize("target", ALIKE)
def test_a_probe_needs_no_key_however_it_is_written(target: str, locked: str) -> None:
    assert asked(locked, target, "") == ANSWERED


@pytest.mark.parametrize("target", OTHERS)
def test_what_only_looks_like_a_probe_needs_a_key_and_is_none(target: str, locked: str) -> None:
    assert asked(locked, target, "") == HOST_REFUSED
    assert asked(locked, target) == KEY_MISSING
    assert asked(locked, target, f"{OURS}x-api-key: key\r\n") == OTHERS[target]


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
def test_the_whole_service_is_no_address(method: str, address: str) -> None:
    assert asked(address, "*", method=method) == NOT_FOUND


def test_nothing_is_connected_to(address: str) -> None:
    for target in ("evil.example:443", "localhost:443", "http://evil.example/"):
        assert asked(address, target, method="CONNECT")[0] in {400, 421}
    with connected(address) as wire:
        wire.sendall(head("CONNECT", "/healthz", None) + head("GET", "/v1/models", None))
        assert told(wire) == NOT_ALLOWED
        assert wire.is_closed()


# Hosts and versions


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_names_its_host_in_any_version(version: str, address: str) -> None:
    assert asked(address, "/v1/models", "", version=version) == HOST_REFUSED
    assert asked(address, "/v1/models", version=version) == ANSWERED


@pytest.mark.parametrize(
    "hosts",
    [
        OURS + ALIEN,
        ALIEN + OURS,
        "host: user@localhost\r\n",
        "host: localhost, evil.example\r\n",
        "host: localhost:80x\r\n",
        "host: localhost/\r\n",
        "host: localhost.\r\n",
        "host:\r\n",
    ],
)
def test_a_host_that_is_not_clearly_ours_is_refused(hosts: str, address: str) -> None:
    assert asked(address, "/v1/models", hosts) == HOST_REFUSED


@pytest.mark.parametrize(
    "hosts", ["host: localhost\r\n evil.example\r\n", "host : localhost\r\n", " host: localhost\r\n"]
)
def test_a_host_that_is_written_askew_is_not_read(hosts: str, address: str) -> None:
    assert asked(address, "/v1/models", hosts) == NOT_HTTP


@pytest.mark.parametrize("sent", [b"GET /v1/models\r\n\r\n", b"GET /healthz\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n"])
def test_other_versions_are_not_spoken(sent: bytes, locked: str) -> None:
    with connected(locked) as wire:
        wire.sendall(sent + head("GET", "/healthz", None))
        assert told(wire) == NOT_HTTP
        assert wire.is_closed()


# Other protocols


@pytest.mark.parametrize("wanted", OTHER_PROTOCOLS.values(), ids=OTHER_PROTOCOLS)
@pytest.mark.parametrize("path", ["/v1/context", "http://localhost/v1/context"])
@pytest.mark.parametrize("cut", [0, 40, -len(BODY), -5])
def test_who_would_rather_speak_another_protocol_is_answered_in_this_one(
    wanted: dict[str, str], path: str, cut: int, address: str
) -> None:
    sent = posted(BODY, path=path, **wanted)
    with connected(address) as wire:
        wire.sendall(sent[:cut])
        wire.sendall(sent[cut:] + head("GET", "/v1/models", None))
        status, headers, body = wire.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert json.loads(body)["memory"]["files"][0]["content"] == "Use tabs."
        assert wire.is_closed()


def test_chunks_are_read_too_where_another_protocol_is_wanted(address: str) -> None:
    wanted: dict[str, Any] = OTHER_PROTOCOLS["h2c"]
    with connected(address) as wire:
        wire.sendall(head(length=None, transfer_encoding="chunked", **wanted))
        wire.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
        assert (told(wire), wire.is_closed()) == (ANSWERED, True)


def test_wanting_another_protocol_opens_nothing(address: str, locked: str) -> None:
    wanted: dict[str, Any] = OTHER_PROTOCOLS["h2c"]
    for url, more, problem in [(locked, {}, KEY_MISSING), (address, {"host": "evil.example"}, HOST_REFUSED)]:
        with connected(url) as wire:
            wire.sendall(posted(BODY, **wanted, **more))
            assert told(wire) == problem


@pytest.mark.parametrize("asked_before", [0, 1])
def test_a_head_that_is_too_large_is_refused_though_it_wants_another_protocol(asked_before: int, address: str) -> None:
    more = {f"x{number}": "" for number in range(300)} | OTHER_PROTOCOLS["h2c"]
    plain = head("GET", "/v1/models", None)
    with connected(address) as wire:
        for _ in range(asked_before):
            wire.sendall(plain)
            assert told(wire) == ANSWERED
        wire.sendall(head("GET", "/v1/models", None, **more) + plain)
        assert told(wire) == NOT_HTTP
        assert wire.is_closed()


def test_many_who_want_another_protocol_at_once_have_one_answer(address: str) -> None:
    with connected(address) as wire:
        wire.sendall(posted(BODY, **OTHER_PROTOCOLS["h2c"]) * 100)
        assert told(wire) == ANSWERED
        assert wire.is_closed()
