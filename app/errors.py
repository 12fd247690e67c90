"""Every failure a caller is told about."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from types import MappingProxyType
from typing import Any, ClassVar


class Problem(Exception):  # noqa: N818 - it is the RFC 9457 noun
    """A failure with a status and a stable type. ``detail`` says what is wrong and what to do about it."""

    headers: Mapping[str, str] = MappingProxyType({})

    status: ClassVar[int] = 500
    type: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str, *, errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors or []


class Passing:
    """Of problems that pass: ``seconds`` is when to ask again."""

    def __init__(self, detail: str, *, errors: list[dict[str, Any]] | None = None, seconds: float = 1) -> None:
        super().__init__(detail, errors=errors)  # type: ignore[call-arg]
        self.headers: Mapping[str, str] = {"retry-after": str(max(1, ceil(seconds)))}


class InvalidRequest(Problem):
    status = 422
    type = "invalid-request"
    title = "The request is not valid"


class NotHttp(Problem):
    status = 400
    type = "not-http"
    title = "This is no request that can be read"


class NotJson(Problem):
    status = 400
    type = "not-json"
    title = "The body is not JSON"


class UnsupportedMediaType(Problem):
    status = 415
    type = "unsupported-media-type"
    title = "The body must be application/json"


class TooLarge(Problem):
    status = 413
    type = "too-large"
    title = "The request is too large"


class NotFound(Problem):
    status = 404
    type = "not-found"
    title = "There is nothing at this address"


class MethodNotAllowed(Problem):
    status = 405
    type = "method-not-allowed"
    title = "This address does not take this method"


class WorkspaceNotFound(Problem):
    """The folder, repository or commit is missing or lies outside the roots: both look alike to the caller."""

    status = 404
    type = "workspace-not-found"
    title = "The workspace cannot be opened"


class SessionNotFound(Problem):
    status = 404
    type = "session-not-found"
    title = "There is no such session"


class SessionStoreAway(Problem):
    """What is not remembered here may be in the store that processes share."""

    status = 503
    type = "session-store-away"
    title = "The session store cannot be reached"
    headers = MappingProxyType({"retry-after": "1"})

    def __init__(
        self,
        detail: str = "This process does not remember the session, and cannot ask the store: ask again.",
        *,
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(detail, errors=errors)


class NothingAsked(Problem):
    status = 404
    type = "nothing-asked"
    title = "The session has asked for nothing yet"


class TooManyListeners(Passing, Problem):
    status = 503
    type = "too-many-listeners"
    title = "Too many listen to events"


class BreakerOpen(Problem):
    status = 409
    type = "breaker-open"
    title = "Automatic compaction has stopped in this session"


class AutoCompactOff(Problem):
    status = 409
    type = "auto-compact-off"
    title = "Automatic compaction is off"


class CompactingAlready(Passing, Problem):
    """Another compaction of the session is under way for ``seconds`` at most."""

    status = 409
    type = "compacting-already"
    title = "The session is being compacted"

    def __init__(
        self,
        detail: str = "Another compaction of this session is under way: ask again when it has ended.",
        *,
        errors: list[dict[str, Any]] | None = None,
        seconds: float = 1,
    ) -> None:
        super().__init__(detail, errors=errors, seconds=seconds)


class UpstreamKeyMissing(Problem):
    status = 424
    type = "upstream-key-missing"
    title = "There is no key for the model's provider"


class GitUnavailable(Passing, Problem):
    status = 503
    type = "git-unavailable"
    title = "git could not answer"


class TookTooLong(Passing, Problem):
    status = 503
    type = "took-too-long"
    title = "The request took too long"


class TooSlow(Problem):
    """The rest of a request did not come in time."""

    status = 408
    type = "too-slow"
    title = "The request did not come whole in time"


class RateLimited(Passing, Problem):
    status = 429
    type = "rate-limited"
    title = "This key has asked too often"


class TooManyAtOnce(Passing, Problem):
    status = 429
    type = "too-many-at-once"
    title = "This key has too many requests under way"


class Overloaded(Passing, Problem):
    status = 503
    type = "overloaded"
    title = "The service has more to do than it can take"


class OriginRefused(Problem):
    status = 403
    type = "origin-refused"
    title = "This service does not answer that web page"


class HostRefused(Problem):
    status = 421
    type = "host-refused"
    title = "This service does not answer for that host"


class CallerRefused(Problem):
    status = 403
    type = "caller-refused"
    title = "This service answers on the loopback interface only"


class KeyMissing(Problem):
    status = 401
    type = "key-missing"
    title = "A valid API key is needed"


class Internal(Problem):
    status = 500
    type = "internal"
    title = "Internal error"
