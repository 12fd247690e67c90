"""What a cold answer for a usual repository costs over HTTP: CPU of the server and of the programs it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.bench.growth import cost, warm_up
from tests.bench.in_process import InProcess, in_process
from tests.bench.load import MARK
from tests.bench.processes import Driver, Served, strata
from tests.bench.trees import EVERYTHING, body, posted, repository, typical

NEW_TREES = 40
SESSIONS = 100


@dataclass(frozen=True, slots=True)
class Usual:
    """Milliseconds of CPU: a new session in a tree that was read before, and in one that was not."""

    name: str
    read_before: float
    never_read: float
    inside: InProcess


def usual(root: Path, driver: Driver, trees: int = NEW_TREES, sessions: int = SESSIONS) -> list[Usual]:
    return [
        measured(root / "plain", driver, "no repository", in_git=False, trees=trees, sessions=sessions),
        measured(root / "in-git", driver, "in a git repository", in_git=True, trees=trees, sessions=sessions),
    ]


def measured(root: Path, driver: Driver, name: str, *, in_git: bool, trees: int, sessions: int) -> Usual:
    folders = [planted(root / f"tree{number}", f"tree {number}", in_git=in_git) for number in range(trees)]
    with strata(root) as served:
        warm_up(served, driver, root)
        new = cost(served, driver, tuple(sent(folder, f"new{place}") for place, folder in enumerate(folders)))
        known = again(served, driver, folders[0], sessions)
    return Usual(name, known, new, in_process(root, folders[0]))


def planted(folder: Path, mark: str, *, in_git: bool) -> Path:
    cwd = typical(folder, mark)
    if in_git:
        repository(folder)
    return cwd


def again(served: Served, driver: Driver, folder: Path, sessions: int) -> float:
    return cost(served, driver, (sent(folder, f"again{MARK.decode()}"),) * sessions)


def sent(folder: Path, session: str) -> bytes:
    return posted(body(folder, session, memory=EVERYTHING))
