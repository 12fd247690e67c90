"""What talks to a Messages API, through the official SDK, which is loaded on first use: its import takes seconds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from app.core.counting import is_count
from app.core.refusals import Reason, reason_of, told
from app.phases import phase
from app.upstream_bodies import UpstreamFailed, json_object, limited, parsed, streamed, unstreamed

T = TypeVar("T")
Read: TypeAlias = Callable[[Any, str], Awaitable[T]]
"""Makes an answer of a response; a refusal within it is told without the key."""
BASE_URL = "https://api.anthropic.com"
CONNECT_SECONDS = 5.0
OWN_KEY_MISSING = "none"
ASKED_ENCODINGS = ("", "identity", "gzip")
"""Of answers: another one is not undone, because what it holds can be far larger than what was sent."""

UNSAID: Mapping[str, Any] = {"model": "", "messages": ()}
"""Everything goes into ``extra_body``: the SDK prints warnings about some models when it is told theirs."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The SDK, the HTTP library it brings, and the one client whose connections all calls share."""

    sdk: Any
    http: Any
    client: Any


class Upstream:
    """A Messages API at one address. Built once, by `main`; belongs to the event loop of its first call.

    Args:
        base_url: None: the public API.
        api_key: for calls that bring none. None or "": there is none.
        timeout_seconds: of silence, and of a whole count with its retries. A wait that the API asks for and that is
            longer is not waited for.
        retries: of one call, after failures that may pass.
        create_seconds: of a whole answer.

    Loading the SDK counts to no limit. Nothing is taken from the environment: no key, address, header, proxy,
    certificate or profile.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        timeout_seconds: float = 20.0,
        retries: int = 2,
        create_seconds: float = 600.0,
    ) -> None:
        self.base_url = base_url or BASE_URL
        self.timeout_seconds = timeout_seconds
        self.create_seconds = create_seconds
        self.retries = retries
        self._api_key = api_key
        self._salt = secrets.token_bytes(16)
        self._loading: asyncio.Task[_Loaded] | None = None

    def key_digest(self, key: str | None = None) -> str | None:
        """Stands for the key a call would use, in this process only; None when there is no key."""
        used = key or self._api_key
        return blake2b(used.encode("utf-8", "surrogatepass"), key=self._salt).hexdigest() if used else None

    async def count_tokens(
        self,
        request: Mapping[str, Any],
        betas: Sequence[str] = (),
        key: str | None = None,
        *,
        seconds: float | None = None,
    ) -> int:
        """Input tokens of a body for the count endpoint, within ``seconds``.

        Raises:
            UpstreamFailed: there is no number.
        """
        limit = self.timeout_seconds if seconds is None else seconds
        return await self._answered("count_tokens", _said(request, betas), _count, key, limit)

    async def create(
        self,
        request: Mapping[str, Any],
        betas: Sequence[str] = (),
        key: str | None = None,
        *,
        max_tokens: int,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """The message a model answers, as JSON. It is streamed, so that a long one does not time out.

        A refusal by the model is an answer: look at ``stop_reason``.

        Raises:
            UpstreamFailed: there is no whole message.
        """
        limit = self.create_seconds if seconds is None else seconds
        said = _said(request, betas, max_tokens=max_tokens, stream=True)
        return await self._answered("create", said, _message, key, limit)

    async def close(self) -> None:
        """Ends the connections. No call may follow."""
        if self._loading is not None:
            await (await asyncio.shield(self._loading)).client.close()

    async def _answered(self, to: str, said: dict[str, Any], read: Read[T], key: str | None, seconds: float) -> T:
        """Raised outside the handlers: the SDK's own errors hold the request with its key."""
        used = _sendable(key or self._api_key)
        loaded = await self._ready()
        try:
            with phase("upstream"):
                async with asyncio.timeout(seconds):
                    messages = _keyed(loaded.client, used).messages.with_streaming_response
                    async with getattr(messages, to)(**said) as response:
                        return await read(response.http_response, used)
        except (TimeoutError, loaded.http.TimeoutException):
            failure = UpstreamFailed("timeout", told("timeout"))
        except UnicodeEncodeError:
            failure = UpstreamFailed("invalid", told("invalid", "the request holds half of a surrogate pair"))
        except loaded.sdk.APIError as error:
            failure = _of_sdk(error, loaded.sdk, used)
        except loaded.http.HTTPError:
            failure = UpstreamFailed("broken_stream", told("broken_stream"))
        raise failure

    async def _ready(self) -> _Loaded:
        """One loading for all: a caller who gives up does not end it."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        return await asyncio.shield(self._loading)

    def _load(self) -> _Loaded:
        sdk, http = import_module("anthropic"), import_module("httpx2")
        connections = sdk.DefaultAsyncHttpxClient(
            trust_env=False,
            follow_redirects=False,
            headers={"accept-encoding": "gzip"},
            event_hooks={"response": [self._bounds]},
        )
        client = sdk.AsyncAnthropic(
            api_key=self._api_key or OWN_KEY_MISSING,
            base_url=self.base_url,
            http_client=connections,
            timeout=sdk.Timeout(self.timeout_seconds, connect=min(CONNECT_SECONDS, self.timeout_seconds)),
            max_retries=self.retries,
            webhook_key="",
            open_telemetry=False,
        )
        # The SDK imports this part when it is first asked for, which is slow, too.
        _ = client.messages
        return _Loaded(sdk, http, client)

    async def _bounds(self, response: Any) -> None:
        """Limits whatever reads the decoded body, the SDK too, and the SDK's sleep to what a caller would wait."""
        if response.headers.get("content-encoding", "").strip().lower() not in ASKED_ENCODINGS:
            del response.headers["content-encoding"]
        response.aiter_bytes = partial(limited, response.aiter_bytes, refused=not response.is_success)
        if (_retry_after(response) or 0) > self.timeout_seconds:
            response.headers["x-should-retry"] = "false"


def _keyed(client: Any, key: str) -> Any:
    """The client with another key over the same connections, without the headers that the environment names."""
    own = client.with_options(api_key=key)
    own._custom_headers = {}  # noqa: SLF001 - the SDK reads ANTHROPIC_CUSTOM_HEADERS, and has no switch for it
    return own


def _sendable(key: str | None) -> str:
    if not key:
        raise UpstreamFailed("no_key", told("no_key"))
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UpstreamFailed("unauthorized", told("unauthorized", "a key holds no spaces, only ASCII"))
    return key


def _said(body: Mapping[str, Any], betas: Sequence[str], **own: Any) -> dict[str, Any]:
    headers = {"anthropic-beta": ",".join(betas)} if betas else {}
    return {**UNSAID, **own, "extra_body": {**body, **own}, "extra_headers": headers}


async def _count(response: Any, _: str) -> int:
    tokens: Any = (await parsed(json_object, await response.aread())).get("input_tokens")
    if not is_count(tokens):
        raise UpstreamFailed("unreadable", told("unreadable"))
    return int(tokens)


async def _message(response: Any, key: str) -> dict[str, Any]:
    as_json = "json" in response.headers.get("content-type", "")
    whole, last = await parsed(unstreamed if as_json else streamed, await response.aread())
    if last.get("type") == "error":
        raise _of_error(response, last, key)
    if whole is None:
        raise UpstreamFailed("broken_stream", told("broken_stream"), status=response.status_code)
    return whole


def _of_sdk(error: Any, sdk: Any, key: str) -> UpstreamFailed:
    if isinstance(error, sdk.APIStatusError):
        return _of_error(error.response, error.body, key)
    reason: Reason = "timeout" if isinstance(error, sdk.APITimeoutError) else "unreachable"
    return UpstreamFailed(reason, told(reason))


def _of_error(response: Any, body: Any, key: str | None) -> UpstreamFailed:
    """``body`` in the API's shape of errors, or anything else that a proxy may send."""
    error = body.get("error") if isinstance(body, Mapping) else None
    kind, words = (error.get("type"), error.get("message")) if isinstance(error, Mapping) else (None, None)
    quoted = words if isinstance(words, str) else None
    reason = reason_of(response.status_code, kind if isinstance(kind, str) else None, quoted or "")
    return UpstreamFailed(
        reason, told(reason, quoted, key), status=response.status_code, retry_after=_retry_after(response)
    )


def _retry_after(response: Any) -> float | None:
    """Seconds; None when the header is missing, or is a date or nonsense."""
    try:
        seconds = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None
