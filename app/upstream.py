"""What talks to a Messages API, through the official SDK, which is loaded on first use: its import takes seconds."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from math import inf
from typing import Any, TypeAlias, TypeVar

from app.core.counting import is_count
from app.core.refusals import Reason, reason_of, told
from app.core.streamed import message_of

T = TypeVar("T")
Client: TypeAlias = Any
"""The SDK's asynchronous client. Its type would have to be imported."""

BASE_URL = "https://api.anthropic.com"
CONNECT_SECONDS = 5.0
OWN_KEY_MISSING = "none"
UNSAID: Mapping[str, Any] = {"model": "", "messages": ()}
"""Everything goes into ``extra_body``: the SDK prints warnings about some models when it is told theirs."""


class UpstreamFailed(Exception):  # noqa: N818 - it is told, as the problems of this service are
    """The Messages API gave no answer that can be used.

    ``message`` is for the caller: what is wrong and what to do, without any key. ``status`` is None when no response
    came; ``retry_after`` is in seconds.
    """

    def __init__(
        self, reason: Reason, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The SDK, the HTTP library it brings, and the one client whose connections all calls share."""

    sdk: Any
    http: Any
    client: Client


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

        async def counted(client: Client, _: _Loaded) -> int:
            asked = client.messages.with_raw_response.count_tokens
            answer = _json(
                (await asked(**UNSAID, extra_body=request, extra_headers=_headers(betas))).http_response.content
            )
            if not is_count(answer.get("input_tokens")):
                raise UpstreamFailed("unreadable", told("unreadable"))
            tokens: int = answer["input_tokens"]
            return tokens

        return await self._answered(counted, key, self.timeout_seconds if seconds is None else seconds)

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
        body = {**request, "max_tokens": max_tokens, "stream": True}

        async def answered(client: Client, loaded: _Loaded) -> dict[str, Any]:
            asked = client.messages.with_streaming_response.create
            async with asked(
                **UNSAID, max_tokens=max_tokens, stream=True, extra_body=body, extra_headers=_headers(betas)
            ) as response:
                return await _message(response.http_response, loaded, key or self._api_key)

        return await self._answered(answered, key, self.create_seconds if seconds is None else seconds)

    async def close(self) -> None:
        """Ends the connections. No call may follow."""
        if self._loading is not None:
            await (await asyncio.shield(self._loading)).client.close()

    async def _answered(self, ask: Callable[[Client, _Loaded], Awaitable[T]], key: str | None, seconds: float) -> T:
        """Raised outside the handlers: the SDK's own errors hold the request with its key."""
        used = _sendable(key or self._api_key)
        loaded = await self._ready()
        try:
            async with asyncio.timeout(seconds):
                return await ask(_keyed(loaded.client, used), loaded)
        except TimeoutError:
            failure = UpstreamFailed("timeout", told("timeout"))
        except UnicodeDecodeError:
            failure = UpstreamFailed("unreadable", told("unreadable"))
        except UnicodeEncodeError:
            failure = UpstreamFailed("invalid", told("invalid", "the request holds half of a surrogate pair"))
        except loaded.sdk.APIError as error:
            failure = _of_sdk(error, loaded.sdk, used)
        except loaded.http.TimeoutException:
            failure = UpstreamFailed("timeout", told("timeout"))
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
            trust_env=False, follow_redirects=False, event_hooks={"response": [self._waits_no_longer]}
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

    async def _waits_no_longer(self, response: Any) -> None:
        """Tells the SDK not to sleep longer than a caller would wait."""
        asked = _retry_after(response)
        if asked is not None and asked > self.timeout_seconds:
            response.headers["x-should-retry"] = "false"


DONE = "[DONE]"
"""What some gateways put behind the last event."""


def _keyed(client: Client, key: str) -> Client:
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


def _headers(betas: Sequence[str]) -> dict[str, str]:
    return {"anthropic-beta": ",".join(betas)} if betas else {}


async def _message(response: Any, loaded: _Loaded, key: str | None) -> dict[str, Any]:
    if "json" in response.headers.get("content-type", ""):
        whole = _json(await response.aread())
        if whole.get("type") == "error":
            raise _of_error(response, whole, key)
        return whole
    sent = loaded.sdk.AsyncStream.raw_events(response)
    events = [_json(sse.data) async for sse in sent if sse.data and sse.data.strip() != DONE]
    for event in events:
        if event.get("type") == "error":
            raise _of_error(response, event, key)
    message = message_of(events)
    if message is None:
        raise UpstreamFailed("broken_stream", told("broken_stream"), status=response.status_code)
    return message


def _json(written: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UpstreamFailed("unreadable", told("unreadable"))
    return found


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
    return seconds if 0 <= seconds < inf else None
