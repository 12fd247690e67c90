"""What loads by no way: the metadata of git, and the user's own folders under another name."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.candidates import Candidate, Plan
from app.core.configuration import private_folders
from app.core.facts import Kind, Node
from app.core.flow import Flow, look
from app.core.includes import is_git_metadata
from app.core.paths import Paths

PRIVATE = "Files here count as the user's own, not as the project's."


def off_limits(plan: Plan, candidate: Candidate, node: Node) -> Flow[tuple[str, str | None] | None]:
    """The reason and a hint, where the candidate's file may not load whatever else is asked for."""
    if is_git_metadata(candidate.path, plan.paths) or is_git_metadata(node.real, plan.paths):
        return "git_metadata", None
    if candidate.parent is not None:
        return ("git_metadata", None) if (yield from _is_in_repository(node.real, plan)) else None
    private = candidate.level.base == "directory" and (yield from _is_private(candidate, plan))
    return ("private_folder", PRIVATE) if private else None


def _is_in_repository(path: str, plan: Plan) -> Flow[bool]:
    """Whether a folder above, up to the working directory or one above that, is a repository without a checkout."""
    for folder in _folders_above(path, plan.client.cwd, plan.paths):
        head = yield from look(plan.paths.join(folder, "HEAD"))
        if head.kind is Kind.FILE:
            objects = yield from look(plan.paths.join(folder, "objects"))
            refs = yield from look(plan.paths.join(folder, "refs"))
            if objects.kind is refs.kind is Kind.DIRECTORY:
                return True
    return False


def _folders_above(path: str, cwd: str, paths: Paths) -> Iterator[str]:
    folder = paths.parent(path)
    while not paths.is_root(folder):
        yield folder
        if paths.within(cwd, folder):
            return
        folder = paths.parent(folder)


def _is_private(candidate: Candidate, plan: Plan) -> Flow[bool]:
    """Whether the folder that a project's file was reported in is one of the user's own, reached through a link."""
    paths = plan.paths
    for folder in sorted(private_folders(plan.client, paths)):
        real = (yield from look(folder)).real
        if paths.parent(candidate.path) == real or paths.within(candidate.path, paths.join(real, "rules")):
            return True
    return False
