from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from app.carrying import LARGE_BODY, WORTH_COMPRESSING
from app.encoding import CODINGS, coding_for, compressed, refuses_identity
from tests.asking import CWD, answered, inline

READERS = {
    None: bytes,
    "gzip": gzip.decompress,
    "zstd": lambda content: zstandard.ZstdDecompressor().decompress(content),
}
CONTEXT = inline({f"{CWD}/CLAUDE.md": "Use tabs, é and 😀. " * 100}, messages=[{"role": "user", "content": "Hello"}])
LARGE = inline({f"{CWD}/.claude/rules/{name}.md": f"Rule {name}.\n" * 3000 for name in "abc"})


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer as it came over the wire."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def coding(self) -> str | None:
        return self.headers.get("content-encoding")

    @property
    def read(self) -> bytes:
        return READERS[self.coding](self.content)


def sent(
    client: httpx.Client, *accepted: str, method: str = "POST", path: str = "/v1/context", body: Any = None
) -> Sent:
    """What comes when ``accepted`` are the Accept-Encoding headers; without any, none is sent."""
    request = client.build_request(method, path, json=body)
    del request.headers["accept-encoding"]
    request.headers = httpx.Headers([*request.headers.raw, *((b"accept-encoding", each.encode()) for each in accepted)])
    response = client.send(request, stream=True)
    try:
        return Sent(response.status_code, response.headers, b"".join(response.iter_raw()))
    finally:
        response.close()


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ((), None),
        (("",), None),
        (("identity",), None),
        (("br, deflate",), None),
        (("gzip",), "gzip"),
        (("zstd",), "zstd"),
        (("gzip, deflate, br, zstd",), "zstd"),
        (("gzip;q=1.0, zstd;q=0.9",), "gzip"),
        (("gzip;q=0.001",), "gzip"),
        (("gzip;q=0",), None),
        (("gzip;q=0.000, zstd;q=0",), None),
        (("gzip", "zstd"), "zstd"),
        (("br", "gzip"), "gzip"),
        (("*",), "zstd"),
        (("*;q=0",), None),
        (("gzip, *;q=0",), "gzip"),
        (("gzip, *",), "gzip"),
        (("gzip;q=0.5, *",), "zstd"),
        (("zstd;q=0, *",), "gzip"),
        (("zstd;q=0, gzip;q=0, *",), None),
        (("gzip;q=0.5, zstd;q=0.5, *",), None),
        (("identity, gzip",), "gzip"),
        (("identity;q=0.5, gzip",), "gzip"),
        (("identity, gzip;q=0.5",), None),
        (("identity;q=0",), None),
        (("identity;q=0, gzip;q=0.1",), "gzip"),
        (("GZip",), "gzip"),
        (("x-gzip",), "gzip"),
        (("x-gzip;q=0, gzip",), None),
        ((" , ,gzip ;\tQ = 0.5,,",), "gzip"),
        (("gzip;level=9;q=0",), None),
        (("gzip;level=9",), "gzip"),
        (("gzip;q=.5, zstd;q=0.",), "gzip"),
        (("gzip;q=1., zstd;q=0.9999",), "gzip"),
        (("gzip;q=", "zstd;q"), None),
        (("gzip;q=2",), None),
        (("gzip;q=-1",), None),
        (("gzip;q=nan, zstd;q=inf",), None),
        (('gzip;q="1"',), None),
        (("gzip;q=high, zstd;q=0.1",), "zstd"),
        (("gzip;q=0, gzip",), None),
        (("gzip", "gzip;q=0"), None),
        (("gzipped, notgzip, zstd2",), None),
        (("gzip zstd",), None),
    ],
)
def test_the_coding_is_the_one_the_caller_likes_best(accepted: tuple[str, ...], coding: str | None) -> None:
    assert coding_for(accepted) == coding


@pytest.mark.parametrize(
    ("accepted", "refused"),
    [
        ((), False),
        (("gzip",), False),
        (("identity;q=0",), True),
        (("identity;q=0.1, *;q=0",), False),
        (("gzip, *;q=0",), True),
        (("*",), False),
    ],
)
def test_content_as_it_is_can_be_refused(accepted: tuple[str, ...], *, refused: bool) -> None:
    assert refuses_identity(accepted) is refused


WEIGHTS = st.sampled_from(["", ";q=0", ";q=0.3", "; Q=0.7", ";q=1", ";q=1.5", ";q=", ";x=1"])
NAMES = st.sampled_from(["gzip", "zstd", "x-gzip", "identity", "br", "*", ""])


@given(st.lists(st.tuples(NAMES, WEIGHTS)))
def test_nobody_is_sent_a_coding_that_they_did_not_name_or_that_they_refused(elements: list[tuple[str, str]]) -> None:
    coding = coding_for([", ".join(name + weight for name, weight in elements)])
    said = [weight for name, weight in elements if name.removeprefix("x-") == coding]
    if not said:
        said = [weight for name, weight in elements if name == "*"]
    assert coding is None or said
    assert coding is None or not {";q=0", ";q=", ";q=1.5"} & set(said)


@given(st.text(max_size=10_000))
def test_any_header_is_read(header: str) -> None:
    assert coding_for([header]) in READERS


@given(st.binary(max_size=20_000), st.sampled_from(CODINGS))
def test_compressed_content_is_the_content_and_the_same_bytes_each_time(content: bytes, coding: str) -> None:
    first, second = (compressed(content, coding) for _ in range(2))
    assert READERS[coding](first) == content
    assert first == second


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("body", [CONTEXT, LARGE], ids=["small", "large"])
def test_a_compressed_answer_is_the_answer(service: httpx.Client, coding: str, body: Any) -> None:
    plain, packed, again = (sent(service, *accepted, body=body) for accepted in ((), (coding,), (coding,)))
    assert (plain.status, plain.coding) == (200, None)
    assert (packed.status, packed.coding) == (200, coding)
    assert (len(plain.content) > LARGE_BODY) is (body is LARGE)
    assert len(packed.content) < len(plain.content)
    assert packed.read == plain.content
    assert packed.content == again.content
    assert packed.headers["content-type"] == plain.headers["content-type"]


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_the_length_is_that_of_the_bytes_sent(service: httpx.Client, coding: str) -> None:
    answer = sent(service, coding, body=CONTEXT)
    assert answer.headers.get_list("content-length") == [str(len(answer.content))]


def test_every_coding_has_its_own_strong_tag(service: httpx.Client) -> None:
    answers = [sent(service, coding, body=CONTEXT) for coding in ("identity", "gzip", "zstd")]
    digest = json.loads(answers[0].content)["digest"]
    assert [answer.headers.get_list("etag") for answer in answers] == [
        [f'"{digest}"'],
        [f'"{digest}-gzip"'],
        [f'"{digest}-zstd"'],
    ]


def test_several_headers_are_one_list(service: httpx.Client) -> None:
    assert sent(service, "br", "gzip;q=0.5", "zstd;q=0.4", body=CONTEXT).coding == "gzip"


@pytest.mark.parametrize("accepted", [(), ("",), ("identity",), ("br",), ("gzip;q=0, zstd;q=0",), ("identity;q=0",)])
def test_who_asks_for_nothing_that_we_have_gets_the_answer_as_it_is(
    service: httpx.Client, accepted: tuple[str, ...]
) -> None:
    answer = sent(service, *accepted, body=CONTEXT)
    assert (answer.status, answer.coding) == (200, None)
    assert json.loads(answer.content)["digest"]


@pytest.mark.parametrize("accepted", [(), ("gzip",), ("zstd",)])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/context", CONTEXT),
        ("POST", "/v1/tokens", {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Hello"}]}),
        ("GET", "/v1/models", None),
        ("GET", "/healthz", None),
        ("GET", "/v1/sessions/nobody", None),
        ("POST", "/v1/context", {}),
        ("GET", "/nowhere", None),
    ],
)
def test_caches_are_told_that_answers_vary(
    service: httpx.Client, method: str, path: str, body: Any, accepted: tuple[str, ...]
) -> None:
    answer = sent(service, *accepted, method=method, path=path, body=body)
    assert answer.headers.get_list("vary") == ["accept-encoding"]


def test_other_answers_are_compressed_too(service: httpx.Client) -> None:
    plain, packed = (sent(service, *accepted, method="GET", path="/v1/models") for accepted in ((), ("gzip",)))
    assert packed.coding == "gzip"
    assert packed.read == plain.content
    assert "etag" not in packed.headers


def test_a_long_problem_is_compressed(service: httpx.Client) -> None:
    body = CONTEXT | {f"unknown_{number}": 1 for number in range(100)}
    answer = sent(service, "zstd", body=body)
    assert (answer.status, answer.coding) == (422, "zstd")
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.read) >= WORTH_COMPRESSING
    assert json.loads(answer.read)["request_id"] == answer.headers["x-request-id"]


def test_a_short_answer_is_sent_as_it_is(service: httpx.Client) -> None:
    answer = sent(service, "gzip, zstd", method="GET", path="/healthz")
    assert (answer.status, answer.coding) == (200, None)
    assert len(answer.content) < WORTH_COMPRESSING


def test_a_short_answer_is_compressed_for_who_refuses_it_as_it_is(service: httpx.Client) -> None:
    answer = sent(service, "gzip, identity;q=0", method="GET", path="/healthz")
    assert (answer.status, answer.coding) == (200, "gzip")
    assert json.loads(answer.read)["status"] == "ok"


def test_an_answer_without_a_body_has_no_coding(service: httpx.Client) -> None:
    session = answered(service.post("/v1/context", json=CONTEXT | {"session_id": "encoded"}))["session"]["id"]
    answer = sent(service, "gzip, identity;q=0", method="DELETE", path=f"/v1/sessions/{session}")
    assert (answer.status, answer.coding, answer.content) == (204, None, b"")


def test_head_has_no_coding(service: httpx.Client) -> None:
    answer = sent(service, "gzip, identity;q=0", method="HEAD", path="/v1/models")
    assert (answer.status, answer.coding, answer.content) == (405, None, b"")


@pytest.mark.parametrize("accepted", ["gzip", "zstd", "gzip, deflate, br, zstd", "identity"])
def test_a_client_that_decodes_reads_the_answer(service: httpx.Client, accepted: str) -> None:
    response = service.post("/v1/context", json=CONTEXT, headers={"accept-encoding": accepted})
    assert "Use tabs, é and 😀." in json.dumps(answered(response), ensure_ascii=False)
