"""What browsers say of the page that asks, and who is answered for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.origins import WEIGHED, Origins, written

APP = "https://app.example"
HERE = "127.0.0.1:8787"
STRANGERS = [
    "https://evil.example",
    "http://evil.example:8787",
    "null",
    "",
    "*",
    "http://127.0.0.1",
    "http://127.0.0.1:8788",
    "https://127.0.0.1",
    "http://127.0.0.1.evil.example:8787",
    "http://127.0.0.1:8787.evil.example",
    "http://127.0.0.1:8787/",
    "http://127.0.0.1:8787@evil.example",
    "http://evil.example#127.0.0.1:8787",
    "http://127.0.0.1:8787, https://evil.example",
    "http://localhost.:8787",
    "http://localhost.evil.example:8787",
    "http://0.0.0.0:8787",
    "http://[::]:8787",
    "http://2130706433:8787",
    "http://0x7f000001:8787",
    "ftp://127.0.0.1:8787",
    "file://",
    "chrome-extension://abcdefgh",
    "127.0.0.1:8787",
    "//127.0.0.1:8787",
    "http://127.0.0.1:",
    "http://",
    "http://" + "a" * 400,
    "http://127.0.0.1:8787\n",
]
NAVIGATES = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def raw(*pairs: tuple[str, str], host: str = HERE, **more: str) -> list[tuple[bytes, bytes]]:
    named = [("host", host), *pairs, *((name.replace("_", "-"), value) for name, value in more.items())]
    return [(name.encode(), value.encode("latin-1")) for name, value in named]


def admits(*pairs: tuple[str, str], method: str = "POST", path: str = "/v1/context", **more: str) -> bool:
    return Origins([APP]).refusal(method, path, raw(*pairs, **more)) is None


# Programs


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/context", "/healthz", "/docs"])
def test_a_program_says_nothing_of_a_page_and_is_admitted(method: str, path: str) -> None:
    assert admits(method=method, path=path)
    assert admits(("referer", "https://evil.example/"), method=method, path=path)


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_what_somebody_types_and_the_page_itself_are_admitted(site: str) -> None:
    assert admits(method="GET", sec_fetch_site=site)


# Origins


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8787", HERE),
        ("http://localhost:8787", HERE),
        ("http://[::1]:8787", "localhost:8787"),
        ("http://127.0.0.1:8787", "[::1]:8787"),
        ("http://localhost", "localhost"),
        ("http://localhost", "LOCALHOST:80"),
        ("https://localhost", "localhost:443"),
        ("http://strata.example", "strata.example"),
        ("https://strata.example", "strata.example"),
        ("https://strata.example:8443", "Strata.Example:8443"),
    ],
)
def test_a_page_of_the_address_that_it_calls_is_admitted(origin: str, host: str) -> None:
    assert admits(origin=origin, host=host)


def test_a_page_of_this_machine_is_admitted_under_its_other_name_though_a_browser_calls_that_another_site() -> None:
    assert admits(origin="http://localhost:8787", sec_fetch_site="cross-site")


@pytest.mark.parametrize("origin", STRANGERS)
def test_another_page_is_refused(origin: str) -> None:
    assert not admits(origin=origin)
    assert not admits(origin=origin, method="GET", path="/docs")
    assert not admits(origin=origin, method="GET", path="/healthz")
    assert not admits(origin=origin, sec_fetch_site="same-origin")


def test_the_page_of_an_allowed_origin_is_admitted() -> None:
    assert admits(origin=APP)
    assert admits(origin=APP, sec_fetch_site="cross-site")
    assert not admits(origin=f"{APP}:444")
    assert not admits(origin="http://app.example")
    assert not admits(origin="https://sub.app.example")


def test_of_several_origins_none_is_believed() -> None:
    own = ("origin", f"http://{HERE}")
    assert admits(own)
    assert not admits(own, own)
    assert not admits(own, ("origin", "https://evil.example"))
    assert not admits(("origin", APP), ("origin", APP))


def test_one_name_over_another_scheme_is_another_page_where_the_browser_says_so() -> None:
    assert not admits(origin="http://strata.example", host="strata.example", sec_fetch_site="cross-site")
    assert admits(origin="https://strata.example", host="strata.example", sec_fetch_site="same-origin")


@pytest.mark.parametrize("host", ["", "evil.example", "[::1", "127.0.0.1:8787:1", "a" * 400])
def test_an_origin_is_not_own_where_the_host_is_another_or_none(host: str) -> None:
    assert not admits(origin="http://127.0.0.1:8787", host=host)


# Requests without an origin


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "Same-Origin", "something-new"])
def test_what_another_page_loads_is_refused(site: str) -> None:
    assert not admits(method="GET", sec_fetch_site=site)
    assert not admits(method="GET", path="/healthz", sec_fetch_site=site)
    assert not admits(method="GET", path="/docs", sec_fetch_site=site)


def test_of_several_sites_each_has_to_be_this_one() -> None:
    assert not admits(("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_link_on_another_page_leads_to_the_pages(method: str) -> None:
    assert admits(*NAVIGATES.items(), method=method, path="/docs")


@pytest.mark.parametrize(
    "change",
    [
        {"method": "POST"},
        {"path": "/v1/sessions/s1/context"},
        {"path": "/openapi.json"},
        {"path": "/healthz"},
        {"sec-fetch-dest": "iframe"},
        {"sec-fetch-dest": "object"},
        {"sec-fetch-dest": None},
        {"sec-fetch-mode": "no-cors"},
        {"sec-fetch-mode": None},
    ],
)
def test_it_leads_nowhere_else_and_into_no_frame(change: dict[str, Any]) -> None:
    about = {"method": "GET", "path": "/docs", **NAVIGATES, **change}
    method, path = about.pop("method"), about.pop("path")
    pairs = [(name, value) for name, value in about.items() if value is not None]
    assert not admits(*pairs, method=method, path=path)


def test_a_navigation_that_says_two_things_is_none() -> None:
    assert not admits(*NAVIGATES.items(), ("sec-fetch-dest", "iframe"), method="GET", path="/docs")


def test_a_refusal_says_what_to_do() -> None:
    refused = Origins(()).refusal("POST", "/v1/context", raw(origin="https://evil.example"))
    assert refused is not None
    assert (refused.status, refused.type) == (403, "origin-refused")
    assert "STRATA_ALLOWED_ORIGINS" in refused.detail


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"referer"]),
            st.sampled_from([APP.encode(), b"http://a:1", b"a:1", b"cross-site", b"none", b"navigate", b"document"])
            | st.binary(max_size=9),
        ),
        max_size=6,
    ),
    st.sampled_from(["GET", "POST"]),
    st.sampled_from(["/docs", "/v1/context"]),
)
def test_a_verdict_depends_on_what_is_weighed_and_nothing_else(
    headers: list[tuple[bytes, bytes]], method: str, path: str
) -> None:
    origins, weighed = Origins([APP]), [one for one in headers if one[0] in WEIGHED]
    assert (origins.refusal(method, path, headers) is None) == (origins.refusal(method, path, weighed) is None)


@given(st.text(alphabet="htps:/.127localhostev@#?[]\x00 é", max_size=40))
def test_no_other_spelling_of_an_origin_passes_for_ours(origin: str) -> None:
    own = {f"{scheme}://{name}" for scheme in ("http", "https") for name in ("localhost", "127.0.0.1", "[::1]")}
    spelled = {f"{one}:{port}" if port else one for one in own for port in ("", "80", "443")}
    headers = [(b"host", b"localhost"), (b"origin", origin.encode())]
    assert Origins(()).refusal("POST", "/", headers) is not None or origin in spelled


# What allowed pages are told


def test_nobody_is_told_anything_while_no_origin_is_allowed() -> None:
    origins, headers = Origins(()), raw(origin=APP, access_control_request_method="POST")
    assert origins.headers_for(headers) == ()
    assert origins.preflight("OPTIONS", headers) is None


def test_an_allowed_page_may_read_the_answer() -> None:
    told = dict(Origins([APP, "https://b.example"]).headers_for(raw(origin=APP)))
    assert told == {
        b"access-control-allow-origin": APP.encode(),
        b"access-control-expose-headers": b"etag, retry-after, x-request-id",
        b"vary": b"origin",
    }


@pytest.mark.parametrize("origin", STRANGERS)
def test_another_page_may_not_and_caches_are_told_that_it_depends(origin: str) -> None:
    assert Origins([APP]).headers_for(raw(origin=origin)) == ((b"vary", b"origin"),)
    assert Origins([APP]).headers_for(raw()) == ((b"vary", b"origin"),)
    assert Origins([APP]).headers_for(raw(("origin", APP), ("origin", origin))) == ((b"vary", b"origin"),)


def test_an_allowed_page_may_send_what_the_service_takes() -> None:
    asked = raw(origin=APP, access_control_request_method="POST", access_control_request_headers="content-type")
    told = dict(Origins([APP]).preflight("OPTIONS", asked) or ())
    assert told[b"access-control-allow-methods"] == b"GET, POST, DELETE"
    assert set(told[b"access-control-allow-headers"].split(b", ")) == {
        b"x-api-key", b"authorization", b"content-type", b"x-upstream-api-key", b"anthropic-beta", b"if-none-match",
        b"last-event-id", b"x-request-id",
    }  # fmt: skip
    assert told[b"access-control-max-age"] == b"600"
    assert b"access-control-allow-private-network" not in told
    assert b"access-control-allow-credentials" not in told


def test_a_public_page_that_is_allowed_may_call_into_a_private_network() -> None:
    asked = raw(origin=APP, access_control_request_method="POST", access_control_request_private_network="true")
    told = dict(Origins([APP]).preflight("OPTIONS", asked) or ())
    assert told[b"access-control-allow-private-network"] == b"true"


def test_what_is_no_preflight_of_an_allowed_page_is_not_answered_as_one() -> None:
    origins = Origins([APP])
    assert origins.preflight("POST", raw(origin=APP, access_control_request_method="POST")) is None
    assert origins.preflight("OPTIONS", raw(origin=APP)) is None
    assert origins.preflight("OPTIONS", raw(access_control_request_method="POST")) is None
    assert origins.preflight("OPTIONS", raw(origin="null", access_control_request_method="POST")) is None


# Spellings in the settings


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("https://app.example", "https://app.example"),
        (" HTTPS://App.Example/ ", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:0080", "http://app.example"),
        ("http://app.example:443", "http://app.example:443"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("vscode-webview://0a1b", "vscode-webview://0a1b"),
    ],
)
def test_an_origin_is_kept_as_browsers_write_it(given: str, means: str) -> None:
    assert written(given) == means
    assert written(means) == means


@pytest.mark.parametrize(
    "given",
    ["", "*", "null", "app.example", "https://", "https://*.example", "https://app.example/path", "https://a b",
     "https://user@app.example", "https://bücher.example", "https://app.example?x", "https://" + "a" * 400],
)  # fmt: skip
def test_what_is_no_origin_is_not_taken(given: str) -> None:
    assert written(given) is None
    with pytest.raises(ValueError, match="is no origin: write one such as"):
        Origins([given])
