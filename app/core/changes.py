"""What changed since the model was told of it. It is said in a late message, so that no byte in front of it moves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.facts import GitFacts, Message
from app.core.late import Late, end, is_prompt
from app.core.message import inert
from app.core.system_context import short_status

SHOWN_COMMITS = 5


@dataclass(frozen=True, slots=True)
class Situation:
    """What may change within a session. ``servers`` are (name, text) of each MCP server that says something.

    None: of this the conversation's first messages say nothing, or it was not looked at now.
    """

    date: str
    servers: tuple[tuple[str, str], ...] | None = None
    git: GitFacts | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A row: the ``state`` of a situation in short, None when nothing is known of it, and the ``text`` on a new one.

    ``text`` is given the state that the model knows. ``patient``: it waits until the user speaks, because the agent's
    own work changes it all the time.
    """

    name: str
    part: str
    state: Callable[[Situation], str | None]
    text: Callable[[str, Situation], str]
    patient: bool = False


def states(now: Situation) -> Mapping[str, str]:
    """What is known now, by subject: what the first messages of a session that begins now say."""
    return {row.name: state for row in SUBJECTS if (state := row.state(now)) is not None}


def changes(known: Mapping[str, str], now: Situation, messages: Sequence[Message]) -> Iterator[Late]:
    """A late message for each subject of which the model knows another state than the present one."""
    for row in SUBJECTS:
        state = row.state(now)
        if state in (None, known.get(row.name, state)) or (row.patient and not is_prompt(messages)):
            continue
        text = f"<system-reminder>\n{inert(row.text(known[row.name], now))}\n</system-reminder>"
        yield Late(end(messages), row.part, text, subject=row.name, state=state)


def _date(now: Situation) -> str:
    return now.date


def _date_text(_: str, now: Situation) -> str:
    return f"The day has changed: today's date is now {now.date}. Do not mention this."


def _servers(now: Situation) -> str | None:
    if now.servers is None:
        return None
    return json.dumps(sorted([name, _digest(text)] for name, text in now.servers))


def _servers_text(known: str, now: Situation) -> str:
    before = {(name, digest) for name, digest in json.loads(known)}
    present = {(name, _digest(text)) for name, text in now.servers or ()}
    changed = {name for name, _ in before ^ present}
    told = [text for name, text in now.servers or () if name in changed]
    gone = sorted(changed - {name for name, _ in present})
    return "\n\n".join(
        (
            "The MCP servers have changed.",
            *((f"No longer connected, so that their instructions no longer hold: {', '.join(gone)}.",) if gone else ()),
            *(("These say how their tools and resources are to be used from now on:", *told) if told else ()),
        )
    )


def _git(now: Situation) -> str | None:
    git = now.git
    if git is None or (git.branch is None and git.status is None and not git.log):
        return None
    return json.dumps([git.branch, _digest(git.status or ""), git.log[0] if git.log else None])


def _git_text(known: str, now: Situation) -> str:
    git = now.git or GitFacts()
    branch, status, newest = json.loads(known)
    at = git.log.index(newest) if newest in git.log else len(git.log)
    told = (
        f"Current branch: {git.branch}" if git.branch not in (None, branch) else None,
        f"Status:\n{short_status(git.status)}" if git.status is not None and _digest(git.status) != status else None,
        "\n".join(("Recent commits:", *git.log[: min(at, SHOWN_COMMITS)])) if at else None,
    )
    return "\n\n".join(("The git repository has changed since you were last told of it.", *filter(None, told)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


SUBJECTS: tuple[Subject, ...] = (
    Subject("date", "date_change", _date, _date_text),
    Subject("mcp", "mcp_change", _servers, _servers_text),
    Subject("git", "git_change", _git, _git_text, patient=True),
)
