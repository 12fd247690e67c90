"""The body of ``POST /v1/attachments``: a touch, told when it happens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core import facts
from app.wire.base import FIRST, Strict
from app.wire.descriptor import Workspace
from app.wire.requests import (
    MOST_TOUCHED,
    Agent,
    Ask,
    Memory,
    Server,
    SessionId,
    SettingSources,
    Touch,
    core_memory,
    files_digest,
)


class AttachmentsRequest(Strict):
    """What the model touched. With a session, each attachment is given once; the caller puts it into the messages."""

    workspace: Workspace
    touched: Annotated[list[Touch], FIRST, Field(max_length=MOST_TOUCHED)]
    session_id: SessionId | None = None
    setting_sources: SettingSources = ["user", "project", "local"]
    memory: Memory = Memory()
    agent: Agent = "main"


def touches_ask(body: AttachmentsRequest, server: Server) -> Ask:
    """Without a date: a touch begins no conversation, and what it is gathered by is not kept for one."""
    return Ask(
        source=body.workspace.opened_as(server.limits),
        request=facts.Request(
            client=body.workspace.client(server.platform, server.home),
            model="",
            date="",
            touched=tuple(facts.Touch(one.path, one.event) for one in body.touched),
            setting_sources=tuple(dict.fromkeys(body.setting_sources)),
            memory=core_memory(body.memory, body.agent),
        ),
        session_id=server.session(body.session_id),
        space=server.space,
        fence=server.fence,
        freshness="session" if body.session_id else "validate",
        files=files_digest(body.workspace.files),
    )
