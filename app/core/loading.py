"""Loads of one request: a candidate, what it includes, and a row for everything considered.

Flows: they ask, and whoever drives them answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.core.advice import CONSENT, LINKED_OUT, TOO_MANY_PATTERNS, UNREAD, link_in_words, sentences
from app.core.allowance import Allowance
from app.core.candidates import Candidate, MemoryFile, Plan, Touched
from app.core.document import Document, is_text_name, limited
from app.core.excludes import ExcludeGlob, Excludes
from app.core.facts import Content, Kind, Node
from app.core.flow import Flow, look, names, read
from app.core.includes import MOST_LEVELS, Reach, better_form, is_git_metadata, leads_out, once_each, targets
from app.core.levels import Level
from app.core.markdown import Mention
from app.core.off_limits import off_limits
from app.core.pauses import in_steps
from app.core.report import NODE_REASONS, Row, Verdict
from app.core.rules import Condition, condition, waiting

Refusal = tuple[str, str | None, Verdict]
"""Why a candidate does not load: reason, hint, verdict."""


class Loading:
    """``seen`` maps real paths that came already to how they were reported. ``allowance`` is the request's."""

    def __init__(
        self, plan: Plan, excludes: Excludes, reach: Reach, seen: Mapping[str, str], allowance: Allowance
    ) -> None:
        self.plan = plan
        self.excludes = excludes
        self.reach = reach
        self.seen = dict(seen)
        self.rows: list[Row] = []
        self.allowance = allowance
        self.excluding: set[ExcludeGlob] = set()
        self._told: set[str] = set()
        self._rules: dict[str, list[Candidate]] = {}
        self._conditions: dict[tuple[str, ...], Condition] = {}

    def file(self, candidate: Candidate) -> Flow[list[MemoryFile]]:
        """The candidate and what it includes; nothing, and a row that says why, when it does not load."""
        node = yield from look(candidate.path)
        if (yield from self._leads_out(candidate, node)):
            return []
        candidate = yield from self._shown(candidate, node)
        document = yield from self._document(candidate, node)
        return (yield from self._loaded(candidate, node, document)) if document else []

    def rule(self, candidate: Candidate, base: str, touched: Touched | None) -> Flow[list[MemoryFile]]:
        """A rule whose condition ``touched`` meets, seen from ``base``. None touched: only one without a condition."""
        node = yield from look(candidate.path)
        if (yield from self._leads_out(candidate, node)):
            return []
        candidate = _reported(candidate, node.real)
        document = yield from self._document(candidate, node)
        if document is None:
            return []
        if document.globs and not self.allowance.take_patterns(document.globs):
            self._tell(candidate, "withheld", "budget", TOO_MANY_PATTERNS)
            return []
        if document.globs and not (yield from self._meets(document.globs, base, touched)):
            self._withhold(candidate, document, base)
            return []
        return (yield from self._loaded(replace(candidate, globs=document.globs), node, document))

    def _leads_out(self, candidate: Candidate, node: Node) -> Flow[bool]:
        """Whether the file waits for consent, and a row that says so. Includes are judged elsewhere."""
        if candidate.parent is not None or node.kind is not Kind.FILE:
            return False
        out = yield from leads_out(self.reach, self.plan.roots, candidate.path, node.real)
        if out:
            self._tell(candidate, "withheld", "external", LINKED_OUT)
        return out

    def rules_below(self, folder: str, level: Level) -> Flow[list[Candidate]]:
        """The rule files of a rules folder: sorted by name, a folder's content at its place, cycles ended."""
        if folder not in self._rules:
            self._rules[folder] = yield from self._rules_found(folder, level)
        return self._rules[folder]

    def _rules_found(self, folder: str, level: Level) -> Flow[list[Candidate]]:
        found: list[Candidate] = []
        visited: set[str] = set()
        pending = [folder]
        while pending:
            path = pending.pop()
            node = yield from look(path)
            if node.kind is Kind.DIRECTORY and node.real not in visited:
                visited.add(node.real)
                pending.extend((yield from self._children(folder, path, node)))
            elif node.kind is Kind.FILE and path.endswith(".md"):
                found.append(Candidate(path, level, is_rule=True))
            elif node.kind is Kind.FILE and path != folder:
                self.add(path, "skipped", "not_a_rule", hint="Only files that end in .md are rules: rename it.")
            elif node.kind is Kind.MISSING and path != folder and UNDECODED in path:
                self.add(path, "skipped", "unreadable", hint="Its name is not UTF-8: rename it.")
            elif node.kind not in {Kind.DIRECTORY, Kind.MISSING}:
                self.add(path, "skipped", NODE_REASONS.get(node.kind, "not_a_rule"))
        return found

    def _children(self, rules: str, path: str, node: Node) -> Flow[list[str]]:
        """The entries of a folder of ``rules``, last first; that some are beyond the limit is told once."""
        if "rules" in self._told:
            return []
        if path.count(self.plan.paths.separator) - rules.count(self.plan.paths.separator) > self.plan.limits.depth:
            self.add(path, "skipped", "budget", hint="It lies too deep: move it up, or raise STRATA_MAX_DEPTH.")
            return []
        if is_git_metadata(node.real, self.plan.paths):
            self.add(path, "skipped", "git_metadata")
            return []
        children = sorted((yield from names(node.real)))
        if not children and (yield from read(node.real)).problem == "unreadable":
            self.add(path, "skipped", "unreadable", hint="This folder may not be listed.")
        taken = [name for name in children if self.allowance.take_rule(self.plan.paths.join(path, name))]
        if len(taken) < len(children):
            self._told.add("rules")
            left = f"{len(children) - len(taken):,} of its {len(children):,} entries were left out (STRATA_MAX_RULES)"
            self.add(path, "skipped", "budget", hint=f"{left}, and all rules after them.")
        return [self.plan.paths.join(path, name) for name in reversed(taken)]

    def add(self, path: str, verdict: Verdict, reason: str, **more: str | int | None) -> None:
        self.rows.append(Row(path, verdict, reason, **more))  # type: ignore[arg-type]

    def _tell(self, candidate: Candidate, verdict: Verdict, reason: str | None, hint: str | None) -> None:
        self.rows.append(Row(candidate.path, verdict, reason, candidate.parent, candidate.line, candidate.tried, hint))

    def _shown(self, candidate: Candidate, node: Node) -> Flow[Candidate]:
        """A file is reported by its folder's real path and its own name."""
        if node.kind is not Kind.FILE or node.real == candidate.path:
            return candidate
        paths = self.plan.paths
        folder = yield from look(paths.parent(candidate.path))
        return _reported(candidate, paths.join(folder.real, paths.name(candidate.path)))

    def _document(self, candidate: Candidate, node: Node) -> Flow[Document | None]:
        refusal = yield from self._refusal(candidate, node)
        content = (yield from read(node.real)) if refusal is None else Content(None)
        document = self.plan.reader.read(content.data) if content.data is not None else None
        if document is None:
            problem = content.problem or "not_text"
            self._refuse(candidate, refusal or (problem, UNREAD.get(problem), "skipped"))
        return document

    def _refuse(self, candidate: Candidate, refusal: Refusal) -> None:
        """A row; a file that came already is named as it was looked for, not as what it led to."""
        reason, hint, verdict = refusal
        if reason == "already_loaded" and candidate.tried:
            candidate = replace(candidate, path=candidate.tried)
        self._tell(candidate, verdict, reason, hint)

    def _refusal(self, candidate: Candidate, node: Node) -> Flow[Refusal | None]:
        """Why the file is not even read."""
        if node.kind is not Kind.FILE:
            return NODE_REASONS[node.kind], None, "skipped"
        if forbidden := (yield from off_limits(self.plan, candidate, node)):
            return *forbidden, "skipped"
        wrong = self._include_refusal(candidate, node) if candidate.parent is not None else None
        if wrong := wrong or (yield from self._exclusion(candidate, node)):
            return wrong
        if node.real in self.seen:
            known = self.seen[node.real]
            return "already_loaded", None if known == candidate.path else f"It came as {known}.", "skipped"
        if candidate.depth > MOST_LEVELS:
            return "too_deep", "Include it from a file nearer to the start of the chain.", "skipped"
        return None

    def _exclusion(self, candidate: Candidate, node: Node) -> Flow[Refusal | None]:
        names = (candidate.path, candidate.tried or candidate.path, node.real) if candidate.level.excludable else ()
        found = yield from in_steps(self.excludes.comparing(names), candidate.path)
        if found is None:
            return None
        self.excluding.add(found)
        return "excluded", f"The pattern {found.glob} of {found.origin} fits it.", "skipped"

    def _include_refusal(self, candidate: Candidate, node: Node) -> Refusal | None:
        paths = self.plan.paths
        if not all(is_text_name(paths.extension(path)) for path in (candidate.path, node.real)):
            return "not_text", None, "skipped"
        if not self.reach.holds(candidate.level, candidate.path, node.real):
            return "external", CONSENT, "withheld"
        return None

    def _loaded(self, candidate: Candidate, node: Node, document: Document) -> Flow[list[MemoryFile]]:
        text = limited(document.text) if candidate.level.limited else document.text
        self.seen[node.real] = candidate.path
        advice = document.advice_for(is_rule=candidate.is_rule, included=candidate.parent is not None)
        if not text.strip():
            self._tell(candidate, "skipped", "empty", sentences(advice))
            return []
        meant = yield from link_in_words(document.raw, self.plan.paths.parent(node.real), self.plan.paths)
        if candidate.level.limited and text != document.text.strip():
            meant = "It is longer than a memory index may be, and was cut: its last line says where."
        self._tell(candidate, "loaded", None, sentences((*advice, *([meant] if meant else []))))
        file = MemoryFile(
            path=candidate.path,
            real=node.real,
            level=candidate.level,
            content=text,
            raw=document.raw,
            parent=candidate.parent,
            globs=candidate.globs,
            differs=text != document.raw,
            depth=candidate.depth,
            trigger=candidate.trigger,
        )
        if candidate.level.limited:
            self._ignore_mentions(file, document)
            return [file]
        return [file, *(yield from self._included(candidate, node, document))]

    def _included(self, includer: Candidate, node: Node, document: Document) -> Flow[list[MemoryFile]]:
        found: list[MemoryFile] = []
        mentioned: set[str] = set()
        for mention in once_each(document.mentions):
            if not self._may_include(includer.path, mention):
                break
            found.extend((yield from self._include(includer, node, mention, mentioned)))
        return found

    def _may_include(self, path: str, mention: Mention) -> bool:
        """Takes one of the includes that are left; that there is none is told once."""
        if self.allowance.take_include():
            return True
        if "includes" not in self._told:
            self._told.add("includes")
            more = "The includes from here on were not looked up (STRATA_MAX_INCLUDES)."
            self.add(path, "skipped", "budget", parent=path, line=mention.line, hint=more)
        return False

    def _include(
        self, includer: Candidate, node: Node, mention: Mention, mentioned: set[str]
    ) -> Flow[list[MemoryFile]]:
        folder = self.plan.paths.parent(node.real)
        tries = list(targets(mention, folder, self.plan.client.home, self.plan.paths))
        if not tries:
            return []
        path = tries[0]
        for one in tries:
            if (yield from look(one)).kind is not Kind.MISSING:
                path = one
                break
        if path in mentioned:
            return []
        mentioned.add(path)
        candidate = replace(
            includer,
            path=path,
            is_rule=False,
            depth=includer.depth + 1,
            parent=includer.path,
            line=mention.line,
            tried=path,
        )
        if (yield from look(path)).kind is Kind.MISSING:
            self._tell(candidate, "skipped", "not_found", (yield from self._better_form(mention, folder)))
            return []
        return (yield from self.file(candidate))

    def _better_form(self, mention: Mention, folder: str) -> Flow[str | None]:
        plan = self.plan
        others = (plan.client.cwd, *([plan.roots.toplevel] if plan.roots else []), plan.paths.parent(folder))
        return (yield from better_form(mention, folder, others, plan.client.home, plan.paths))

    def _ignore_mentions(self, file: MemoryFile, document: Document) -> None:
        folder = self.plan.paths.parent(file.real)
        for mention in once_each(document.mentions):
            if not self._may_include(file.path, mention):
                break
            if tried := next(targets(mention, folder, self.plan.client.home, self.plan.paths), None):
                self.add(tried, "skipped", "includes_not_followed", parent=file.path, line=mention.line, tried=tried)

    def _meets(self, globs: tuple[str, ...], base: str, touched: Touched | None) -> Flow[bool]:
        relative = self.plan.paths.relative(touched.real, base) if touched else None
        if touched is None or relative is None:
            return False
        if globs not in self._conditions:
            self._conditions[globs] = condition(globs)
        return (yield from in_steps(self._conditions[globs].comparing(relative), touched.real))

    def _withhold(self, candidate: Candidate, document: Document, base: str) -> None:
        slashed = self.plan.paths.slashed(base)
        reason, advice = waiting(document.globs, self.plan.reader.unreadable(document.globs), slashed)
        self._tell(candidate, "withheld", reason, sentences((*document.advice_for(is_rule=True), *advice)))


UNDECODED = "\ufffd"
"""Stands in a listed name for bytes that are not UTF-8: nothing is found under such a name."""


def _reported(candidate: Candidate, path: str) -> Candidate:
    """The candidate under the path it is reported by; where it was looked for stays known."""
    return candidate if path == candidate.path else replace(candidate, path=path, tried=candidate.path)
