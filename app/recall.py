"""What of a session counts for a request, what a turn still needs, and what it leaves behind."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from math import inf

from app.core.assembly import Assembly, asked
from app.core.cache_report import TTL_SECONDS
from app.core.facts import Notice
from app.core.footprint import Footprint, joined
from app.core.late import is_prompt
from app.core.remembered import Remembered
from app.core.sections import SESSION_GUIDANCE, SYSTEM_CONTEXT, uses_default_prompt
from app.core.tools import tool_names
from app.gather import Wanted
from app.stores.socket import Held
from app.wire.requests import Ask
from app.workspaces.fence import Fence
from app.workspaces.opening import InlineSource, LocalSource


@dataclass(frozen=True, slots=True)
class Recalled:
    """``held`` is what the store has, ``remembered`` what of it counts; ``moved``: it was another workspace's."""

    held: Held
    remembered: Remembered
    moved: bool

    @property
    def is_new(self) -> bool:
        return self.held.remembered is None or self.moved


@dataclass(frozen=True, slots=True)
class Repeats:
    """While what it was read from is as it was, and the session too, the same request has the same answer.

    ``fence`` is what it was read inside of.

    ``session`` None: there is none. ``version`` is the session's, ``alone`` whether it is this process's own.
    ``lasts`` False: the session learned something on this turn, so that the next one may be answered otherwise.
    ``sent``: the answer is a turn's, so that repeating it is one too. ``fixed``: the session does not look at the disk
    but for the folder that it works in. ``started`` is when the session's last turn was,
    and ``moment`` when the answer was assembled, by the clock that all processes share.
    """

    footprint: Footprint
    fence: Fence
    session: str | None
    version: int = 0
    alone: bool = False
    lasts: bool = True
    sent: bool = False
    fixed: bool = False
    started: float | None = None
    moment: float | None = None

    @property
    def until(self) -> float:
        """When the prompt cache may forget more of the last turn, which an answer tells; without end: never."""
        if self.started is None or self.moment is None:
            return inf
        ends = [self.started + ttl for ttl in TTL_SECONDS.values()]
        return min((end for end in ends if end >= self.moment), default=inf)


def recalled(ask: Ask, held: Held, identity: str) -> Recalled:
    """A session of another workspace is none; one that was compacted since goes on from its summary."""
    stored = held.remembered and held.remembered.of(_boundary(ask))
    moved = stored is not None and stored.workspace != identity
    begun = fresh(identity, ask)
    remembered = begun if stored is None or moved else stored
    if stored is not None and not moved and _is_compacted(ask, stored):
        remembered = stored.begun_anew(begun)
    if not remembered.date:
        remembered = replace(remembered.begun_anew(begun), delivered=remembered.delivered)
    return Recalled(held, remembered.rewound(len(ask.request.messages)), moved)


def identity_of(ask: Ask) -> str:
    """Which workspace a session belongs to: nobody else's text may continue it."""
    client, source = ask.request.client, ask.source
    named = [type(source).__name__, client.cwd, client.home, client.config_dir, getattr(source, "repository", None)]
    if ask.fence is not None:
        named.append("\0".join(ask.fence.roots))
    return hashlib.sha256(repr(named).encode("utf-8", "surrogatepass")).hexdigest()


def fresh(identity: str, ask: Ask) -> Remembered:
    """A session before its first turn."""
    date = ask.request.date
    return Remembered(identity, date, {"date": date}, files=ask.files, boundary=_boundary(ask))


def may_keep(ask: Ask, remembered: Remembered) -> bool:
    """Whether memory that a session has read can do, as far as the request says."""
    if ask.freshness == "reload" or remembered.memory is None or remembered.asked not in {"", asked(ask.request)}:
        return False
    return ask.freshness == "session" or remembered.files == ask.files


def wanted(ask: Ask, remembered: Remembered, *, keeps: bool) -> Wanted:
    """``keeps``: what the session has read is what there is to read."""
    same = remembered.asked in {"", asked(ask.request)}
    return Wanted(
        git=uses_default_prompt(ask.request.prompt) and _looks_at_git(ask, remembered),
        configuration=remembered.configuration if same and (keeps or ask.freshness == "session") else None,
        style=remembered.style,
        memory=remembered.memory if keeps else None,
        delivered=remembered.delivered,
        skills=SESSION_GUIDANCE not in remembered.sections or remembered.tools != tool_names(ask.request.tools),
    )


def left(ask: Ask, before: Remembered, assembly: Assembly, read: Footprint | None, *, keeps: bool) -> Remembered:
    """What the session holds after a turn. ``read``: what the turn itself was read from."""
    after = assembly.remember if keeps else replace(assembly.remember, footprint=read)
    if not keeps or ask.freshness != "session":
        after = replace(after, files=ask.files)
    if not ask.is_sent:
        after = replace(after, turn=before.turn)
    return replace(after, request=ask.sent_as or before.request)


def footing(ask: Ask, after: Remembered, read: Footprint | None, *, keeps: bool) -> Footprint | None:
    """What a repeated request's answer depends on; None where that cannot be told."""
    if read is None or not keeps or ask.freshness == "session":
        return read
    return joined(after.footprint, read) if after.footprint is not None else None


def repeats(ask: Ask, assembly: Assembly, *, looked_at_git: bool) -> bool:
    """Whether nothing but the session and the disk is in the answer: no moment, no other program's word."""
    asks_others = assembly.tally.asks or (looked_at_git and assembly.facts.git is not None and not _is_inline(ask))
    cools_down = assembly.facts.cool_down and assembly.tally.state.breaker.state != "closed"
    return ask.freshness != "reload" and not asks_others and not cools_down


def moved_notices(*, moved: bool) -> tuple[Notice, ...]:
    if not moved:
        return ()
    message = "This session belonged to another workspace: it was started again. Use one session for one workspace."
    return (Notice("session_workspace_changed", message, "session_id"),)


def git_notices(ask: Ask, assembly: Assembly, *, looked: bool) -> tuple[Notice, ...]:
    """A word when a repository's facts are wanted and git did not tell them."""
    git = assembly.facts.git
    if not looked or not isinstance(ask.source, LocalSource) or git is None or git.roots is None:
        return ()
    if git.status is not None or not assembly.facts.request.settings.include_git_instructions:
        return ()
    message = (
        "git did not answer in time, or may not be asked here: its facts are left out. Clear the session to ask again."
    )
    return (Notice("git_unavailable", message, "workspace"),)


def kept_notices(ask: Ask, held: Held, *, moved: bool) -> tuple[Notice, ...]:
    """A word when the files sent are not those that the session's memory was read from."""
    before = held.remembered
    begun = before is not None and before.begun
    renewed = moved or ask.freshness != "session" or not begun or (before is not None and _is_compacted(ask, before))
    if renewed or before is None or before.files == ask.files:
        return ()
    message = (
        "The files sent differ from those of the session's first turn, whose memory is kept: use freshness validate."
    )
    return (Notice("session_memory_kept", message, "workspace.files"),)


def _boundary(ask: Ask) -> str:
    """Which compaction the conversation goes on from: after another one memory is read again. Empty: none."""
    last = next((message for message in reversed(ask.request.messages) if message.boundary), None)
    return hashlib.sha256(repr(last.content).encode("utf-8", "surrogatepass")).hexdigest() if last else ""


def _is_compacted(ask: Ask, remembered: Remembered) -> bool:
    return _boundary(ask) not in {"", remembered.boundary}


def _is_inline(ask: Ask) -> bool:
    return isinstance(ask.source, InlineSource)


def _looks_at_git(ask: Ask, remembered: Remembered) -> bool:
    """Once a session, whenever the caller says what it knows, and when the user speaks in a session that validates.

    The same request again is the same turn.
    """
    if SYSTEM_CONTEXT.name not in remembered.sections or _is_inline(ask):
        return True
    if ask.freshness == "session" or not is_prompt(ask.request.messages):
        return False
    return ask.freshness == "reload" or ask.sent_as is None or ask.sent_as != remembered.request
