"""Questions the core asks, without asking anybody: flows are generators, and `gather` answers them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from app.core.facts import Content, Node

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """What stands at ``path``? Answer: Node."""

    path: str


@dataclass(frozen=True, slots=True)
class Read:
    """The bytes at ``path``, which is real. Answer: Content."""

    path: str


@dataclass(frozen=True, slots=True)
class Names:
    """The names in the folder ``path``, which is real. Answer: tuple of str, in any order; empty if unreadable."""

    path: str


@dataclass(frozen=True, slots=True)
class Carries:
    """Does the checkout at ``toplevel`` carry ``path``, or a link on the way to it, as its own? Answer: bool."""

    path: str
    toplevel: str


Question = Look | Read | Names | Carries
Answer = Node | Content | tuple[str, ...] | bool
Flow = Generator[Question, Answer, T]


class WrongAnswerError(TypeError):
    """The one who drives a flow gave an answer of another kind than the question."""


def look(path: str) -> Flow[Node]:
    answer = yield Look(path)
    if not isinstance(answer, Node):
        raise WrongAnswerError(path)
    return answer


def read(path: str) -> Flow[Content]:
    answer = yield Read(path)
    if not isinstance(answer, Content):
        raise WrongAnswerError(path)
    return answer


def names(path: str) -> Flow[tuple[str, ...]]:
    answer = yield Names(path)
    if not isinstance(answer, tuple):
        raise WrongAnswerError(path)
    return answer


def carries(path: str, toplevel: str) -> Flow[bool]:
    answer = yield Carries(path, toplevel)
    if not isinstance(answer, bool):
        raise WrongAnswerError(path)
    return answer
