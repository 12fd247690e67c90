"""Facts by hand, assembled: what tests of the whole composition share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.core.assembly import Assembly, assemble
from app.core.attachments import Attached
from app.core.candidates import MemoryFile
from app.core.facts import Client, Message, Request
from app.core.gathered import Facts
from app.core.levels import LEVELS
from app.core.memory import Memory
from app.core.remembered import Remembered
from app.data.tables import load_models
from app.data.texts import load_prose

MODELS = load_models()
PROSE = load_prose()
DATE = "2026-11-30"
PROJECT = next(level for level in LEVELS if level.type == "Project")
REQUEST = Request(client=Client(cwd="/p", platform="linux"), model="claude-sonnet-4-5", date=DATE)


def memory_file(path: str, content: str, **more: Any) -> MemoryFile:
    return MemoryFile(path=path, real=path, level=PROJECT, content=content, raw=content, **more)


def facts(request: Request = REQUEST, **more: Any) -> Facts:
    given: dict[str, Any] = {"git": None, "memory": Memory(), "attached": Attached(), "memory_dir": None}
    return Facts(
        request=request,
        model=MODELS.find(request.model),
        wire_model=MODELS.wire_id(request.model),
        prose=PROSE,
        **given | more,
    )


def fresh(date: str = DATE) -> Remembered:
    return Remembered("workspace", date, {"date": date})


def assembled(remembered: Remembered | None = None, **more: Any) -> Assembly:
    return assemble(facts(**more), remembered or fresh())


def asked(**more: Any) -> Request:
    return replace(REQUEST, **more)


def said(assembly: Assembly) -> list[tuple[str, list[str]]]:
    """The texts of the API's messages, without markers."""
    found = []
    for message in assembly.planned.messages:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
        found.append((message["role"], texts))
    return found


def conversation(*turns: str) -> tuple[Message, ...]:
    return tuple(Message("assistant" if index % 2 else "user", text) for index, text in enumerate(turns))
