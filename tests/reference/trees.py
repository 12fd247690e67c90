"""A reference case as a tree on disk: a folder stands for ``/``, and every path moves below it."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reference.cases import Case, workspace
from tests.reference.programs import first_commit, git

KNOWN_PATH = re.compile(r"(?<![\w/*.~-])/(?=home/dev\b|etc/claude-code\b)")
MANAGED = "/etc/claude-code"

ALSO_A_REPOSITORY = {
    "repo-nested": ("/home/dev/outer", "the case is about a repository inside another one"),
}
LOOSE_GIT_FILES = {
    "c-broken-gitdir": (
        "/home/dev/p/sub/.git",
        "gitdir: /home/dev/p/.git/worktrees/gone\n",
        "the case is about a worktree whose main repository is gone",
    ),
}
BARE_PLACES = (".git", ".bare", ".")
"""Where a bare repository may lie in the folder that holds its worktrees."""


def memory_key(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", path)


@dataclass(frozen=True)
class Tree:
    """``root`` stands for ``/``; it is real and has no character that an include or a glob would stop at."""

    root: Path

    def there(self, path: str) -> str:
        """Where a path of the case lies on disk."""
        return str(self.root) + path

    def _moved_key(self, path: str, key: str) -> str:
        return path.replace(f"/projects/{key}/", f"/projects/{memory_key(str(self.root))}{key}/")

    def place(self, path: str, cwd: str) -> Path:
        """Where a file of the case lies; the memory folder's name follows the working directory's place."""
        return Path(self.there(self._moved_key(path, memory_key(cwd))))

    def rewritten(self, text: str) -> str:
        return KNOWN_PATH.sub(lambda _: f"{self.root}/", text)

    def back(self, answered: Any) -> Any:
        """An answer with every path as the case has it."""
        if isinstance(answered, str):
            return answered.replace(str(self.root), "").replace(f"/projects/{memory_key(str(self.root))}", "/projects/")
        if isinstance(answered, list):
            return [self.back(entry) for entry in answered]
        if isinstance(answered, dict):
            return {name: self.back(value) for name, value in answered.items()}
        return answered

    def lay(self, case: Case, bare_place: str = ".git") -> dict[str, Any]:
        """Put the case on disk; answers its request, which reads it from there."""
        described = workspace(case)
        self._make_repositories(case, bare_place)
        Path(self.there(described["cwd"])).mkdir(parents=True, exist_ok=True)
        for path, entry in described["files"].items():
            self._write(self.place(path, described["cwd"]), entry)
        if case["id"] in LOOSE_GIT_FILES:
            path, text, _ = LOOSE_GIT_FILES[case["id"]]
            self._write(Path(self.there(path)), text)
        return self._request(case)

    def _write(self, place: Path, entry: str | dict[str, Any]) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, str):
            place.write_bytes(self.rewritten(entry).encode())
        elif "base64" in entry:
            place.write_bytes(base64.b64decode(entry["base64"]))
        elif "link" in entry:
            target = entry["link"]
            place.symlink_to(self.there(target) if target.startswith("/") else target)
        else:
            place.mkdir(exist_ok=True)

    def _make_repositories(self, case: Case, bare_place: str) -> None:
        known = workspace(case).get("git")
        for path in ALSO_A_REPOSITORY.get(case["id"], ())[:1]:
            git(Path(self.there(path)), "init", "--quiet", "--initial-branch=main")
        if known is None:
            return
        toplevel = Path(self.there(known["toplevel"]))
        if known.get("main_toplevel") is None:
            git(toplevel, "init", "--quiet", "--initial-branch=main")
            first_commit(toplevel)
            return
        holder = Path(self.there(known["main_toplevel"]))
        repository = self._bare(holder, bare_place) if known.get("bare") else self._checkout(holder)
        git(repository, "worktree", "add", "--quiet", "-b", "side", str(toplevel), "main")

    def _checkout(self, holder: Path) -> Path:
        git(holder, "init", "--quiet", "--initial-branch=main")
        first_commit(holder)
        return holder

    def _bare(self, holder: Path, place: str) -> Path:
        repository = holder / place
        git(repository, "init", "--quiet", "--bare", "--initial-branch=main")
        if place == ".bare":
            (holder / ".git").write_text("gitdir: ./.bare\n")
        first_commit(repository)
        return repository

    def _request(self, case: Case) -> dict[str, Any]:
        described = workspace(case)
        moved = {name: value for name, value in described.items() if name not in {"files", "git"}}
        for name in ("cwd", "home", "config_dir"):
            if name in moved:
                moved[name] = self.there(moved[name])
        if "additional_directories" in moved:
            moved["additional_directories"] = [self.there(path) for path in moved["additional_directories"]]
        moved |= {"source": "local", "managed_dir": self.there(MANAGED)}
        request: dict[str, Any] = case["request"] | {"workspace": moved}
        request["memory"] = request.get("memory", {}) | {"walk_stop": str(self.root)}
        if "touched" in request:
            request["touched"] = [touch | {"path": self.there(touch["path"])} for touch in request["touched"]]
        return request
