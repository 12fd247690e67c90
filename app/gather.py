"""Workspace in, facts out: the only module that asks a workspace anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TypeVar

from app.core.allowance import Allowance, Limits
from app.core.attachments import Attached, attach
from app.core.candidates import Plan
from app.core.configuration import Configuration, configuration
from app.core.costs import Prices
from app.core.directories import MOST_DIRECTORIES, directory_notices
from app.core.document import DocumentReader, Documents, EveryDocument
from app.core.facts import Content, GitFacts, Kind, Node, Notice, OutputStyle, Request, Skills
from app.core.flow import Answer, Carries, Flow, Look, Question, Read, look
from app.core.gathered import Facts
from app.core.markdown import MarkdownReader
from app.core.memory import Memory, auto_memory_dir, load
from app.core.models import Model, ModelTable
from app.core.sections import uses_default_prompt
from app.core.skill_files import find_skills
from app.core.skills import SKILL_TOOL
from app.core.style_files import find_style
from app.core.tools import tool_names
from app.errors import TookTooLong, TooLarge
from app.phases import phase
from app.workspaces.socket import Workspace

T = TypeVar("T")

LOOK_CHARACTERS = 1_024
"""Of the path of a question that counts for one: a longer one counts for several."""


Styled = tuple[tuple[str, OutputStyle | None] | None, tuple[Notice, ...]]
Skilled = tuple[Skills, tuple[Notice, ...]]


def _never() -> bool:
    return False


def _stopped() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Known:
    """What this process knows whatever the workspace: built once, by `main`.

    ``clock`` is for deadlines; ``now`` is one that all processes share; ``cool_down`` is of the breaker. All are in
    seconds. ``documents`` None: each request parses its own.
    """

    models: ModelTable
    prose: Mapping[str, str]
    markdown: MarkdownReader
    limits: Limits = field(default_factory=Limits)
    request_seconds: float | None = None
    clock: Callable[[], float] = _stopped
    now: Callable[[], float] = _stopped
    prices: Prices = field(default_factory=Prices)
    cool_down: float = 0.0
    window_override: int | None = None
    documents: Documents | None = None

    def deadline(self) -> Callable[[], bool]:
        """Says whether the time of a request that begins now is over."""
        if self.request_seconds is None:
            return _never
        end = self.clock() + self.request_seconds
        return lambda: self.clock() > end

    def answers(self, workspace: Workspace) -> Answers:
        """For one request, which begins now."""
        return Answers(workspace, self.deadline(), self.limits)


@dataclass(slots=True)
class Answers:
    """A workspace's answers within one request: each question is put once.

    ``looks`` counts questions, ``taken`` the bytes of all files that were read.
    """

    workspace: Workspace
    expired: Callable[[], bool] = _never
    limits: Limits = field(default_factory=Limits)
    given: dict[Question, Answer] = field(default_factory=dict)
    looks: int = 0
    taken: int = 0

    def drive(self, flow: Flow[T]) -> T:
        """Runs a flow to its end."""
        try:
            question = next(flow)
            while True:
                question = flow.send(self.answer(question))
        except StopIteration as ended:
            found: T = ended.value
            return found

    def answer(self, question: Question) -> Answer:
        """Raises TookTooLong once the request's time is over, TooLarge once it has asked too much.

        No flow can go on without an answer.
        """
        if self.expired():
            raise TookTooLong("The workspace took too long to read: make it smaller, or raise STRATA_REQUEST_SECONDS.")
        answer = self.given.get(question)
        if answer is None:
            self._count(question)
            answer = self.given[question] = self._asked(question)
        return answer

    def _count(self, question: Question) -> None:
        self.looks += 1 + len(question.path) // LOOK_CHARACTERS
        if self.looks > self.limits.looks:
            raise TooLarge(
                f"A request may look at {self.limits.looks:,} files and folders (STRATA_MAX_LOOKS), and this one needs "
                "more: name fewer touched files, or a smaller workspace."
            )

    def _asked(self, question: Question) -> Answer:
        if isinstance(question, Look):
            return self.workspace.look(question.path)
        if isinstance(question, Carries):
            return self.workspace.carries(question.path, question.toplevel)
        return self._read(question.path) if isinstance(question, Read) else self.workspace.names(question.path)

    def _read(self, path: str) -> Content:
        """A file that does not fit into what may still be read leaves the rest for smaller ones."""
        standing = self.given.get(Look(path))
        size = standing.size if isinstance(standing, Node) and standing.kind is Kind.FILE else 0
        left = self.limits.memory_bytes - self.taken
        content = self.workspace.read(path) if size <= left else Content(None, "budget")
        if content.data is not None and len(content.data) > left:
            content = Content(None, "budget")
        self.taken += len(content.data or b"")
        return content


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a turn still needs: a session may remember the rest. None: not remembered, to be gathered."""

    git: bool = True
    configuration: Configuration | None = None
    style: tuple[str, OutputStyle | None] | None = None
    memory: Memory | None = None
    delivered: Collection[str] = ()
    skills: bool = True


@dataclass(frozen=True, slots=True)
class _Layers:
    """What was gathered. ``notices`` are about style, skills and additional directories."""

    plan: Plan
    git: GitFacts | None
    style: tuple[str, OutputStyle | None] | None
    skills: Skills
    memory: Memory
    attached: Attached
    notices: tuple[Notice, ...]


async def gather(workspace: Workspace, request: Request, known: Known, wanted: Wanted) -> Facts:
    """The facts of one turn. Git works while the rest is read."""
    layers = await asyncio.to_thread(_layers, workspace, request, known, wanted)
    plan, model = layers.plan, known.models.find(request.model)
    return Facts(
        request=_settled(request, plan, layers.style[1] if layers.style else None, layers.skills),
        model=model,
        wire_model=known.models.wire_id(request.model),
        git=_git(layers.git, plan),
        memory=layers.memory,
        attached=layers.attached,
        memory_dir=auto_memory_dir(plan) if request.memory.enabled else None,
        prose=known.prose,
        configuration=plan.configuration,
        style=layers.style,
        window_override=known.window_override,
        prices=known.prices,
        cool_down=known.cool_down,
        notices=(*model_notices(request.model, model, known.models), *layers.notices),
    )


def _layers(workspace: Workspace, request: Request, known: Known, wanted: Wanted) -> _Layers:
    asking = workspace.asking_git(request.client.cwd) if wanted.git else nullcontext(_nothing)
    with asking as told:
        answers = known.answers(workspace)
        plan = _plan(answers, request, known, wanted)
        style, styled = _style(answers, plan, request, known, wanted)
        skills, listed = _skills(answers, plan, request, wanted)
        memory, attached = _memory(answers, plan, request, wanted)
        notices = (*answers.drive(directory_notices(plan)), *styled, *listed)
        with phase("git"):
            git = told()
        return _Layers(plan, git, style, skills, memory, attached, notices)


def _nothing() -> None:
    return None


async def gather_attachments(
    workspace: Workspace, request: Request, known: Known, wanted: Wanted
) -> tuple[Memory, Attached]:
    """What loads up front, and what the touched files bring beside it."""

    def gathered() -> tuple[Memory, Attached]:
        answers = known.answers(workspace)
        plan = _plan(answers, request, known, wanted)
        return _memory(answers, plan, request, wanted)

    return await asyncio.to_thread(gathered)


def _plan(answers: Answers, request: Request, known: Known, wanted: Wanted) -> Plan:
    workspace = answers.workspace
    paths = workspace.paths
    roots = workspace.roots(request.client.cwd)
    configured = wanted.configuration or answers.drive(
        configuration(request.client, roots, request.setting_sources, paths)
    )
    named = configured.additional_directories[:MOST_DIRECTORIES]
    more = tuple(answers.drive(look(folder)).real for folder in named)
    folders = tuple(dict.fromkeys((*request.client.additional_directories, *more)))
    return Plan(
        client=replace(request.client, additional_directories=folders, given=(*request.client.given, *named)),
        paths=paths,
        options=request.memory,
        reader=DocumentReader(known.markdown, known.documents or EveryDocument()),
        roots=roots,
        sources=request.setting_sources,
        configuration=configured,
        limits=known.limits,
    )


def _git(facts: GitFacts | None, plan: Plan) -> GitFacts | None:
    if facts is None:
        return GitFacts(roots=plan.roots) if plan.roots else None
    return replace(facts, roots=facts.roots or plan.roots)


def _style(answers: Answers, plan: Plan, request: Request, known: Known, wanted: Wanted) -> Styled:
    name = request.overrides.output_style or plan.configuration.output_style
    if not name:
        return None, ()
    if wanted.style and wanted.style[0] == name:
        return wanted.style, ()
    style, notices = answers.drive(find_style(name, plan, known.prose))
    return (name, style), notices


def _skills(answers: Answers, plan: Plan, request: Request, wanted: Wanted) -> Skilled:
    """The skills for the prompt, where it is one that lists them."""
    lists = uses_default_prompt(request.prompt) and SKILL_TOOL in tool_names(request.tools)
    return answers.drive(find_skills(plan)) if lists and wanted.skills else (Skills(), ())


def _memory(answers: Answers, plan: Plan, request: Request, wanted: Wanted) -> tuple[Memory, Attached]:
    allowance = Allowance.of(plan.limits)
    memory = wanted.memory or answers.drive(load(plan, allowance))
    return memory, answers.drive(attach(plan, memory, wanted.delivered, request.touched, allowance))


def _settled(request: Request, plan: Plan, style: OutputStyle | None, skills: Skills) -> Request:
    """The request with what the settings files say where the descriptor is silent."""
    overrides, configured = request.overrides, plan.configuration
    git = overrides.include_git_instructions
    if git is None:
        git = configured.include_git_instructions
    settings = replace(
        request.settings,
        output_style=style,
        language=overrides.language or configured.language,
        include_git_instructions=True if git is None else git,
        skills=skills,
    )
    return replace(request, client=plan.client, settings=settings)


def model_notices(spelling: str, model: Model, models: ModelTable) -> tuple[Notice, ...]:
    """A word on a model that is not in the table, with one that is spelt almost alike."""
    if model.known:
        return ()
    window, meant = model.client_window, models.nearest(spelling)
    like = f" Did you mean {meant}?" if meant else ""
    message = f"The model {spelling} is not in the table: the default row is used, a window of {window:,} tokens.{like}"
    return (Notice("unknown_model", message, "model"),)
