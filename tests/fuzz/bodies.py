"""Targets for what comes over HTTP: whole requests to assemble, any bodies, and settings files in a workspace."""

from __future__ import annotations

import base64
import json
from typing import Any

from app.core.facts import Kind
from app.wire.compactions import CompactionRequest
from app.wire.counts import TokensResult
from app.wire.lints import LintAnswer
from app.wire.scans import ScanAnswer
from app.wire.schema import AttachmentsAnswer, ContextAnswer
from tests.core.api_rules import marked, violations
from tests.core.tree import Tree
from tests.fuzz import talks
from tests.fuzz.conversations import MODELS, legal
from tests.fuzz.drawing import Drawn
from tests.fuzz.service import Answered, is_documented, service
from tests.standin.rules import Call, check

CWD = "/home/dev/p"
HOME = "/home/dev"
HIDDEN = "WHAT-GIT-KEEPS"
OUTSIDE = "WHAT-LIES-OUTSIDE"
GIT = {f"{CWD}/.git/config": HIDDEN, "/srv/secret.md": OUTSIDE}
PROJECT_FILES = (
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    ".claude/rules/a.md",
    ".claude/rules/deep/b.md",
    ".claude/rules/c.txt",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/skills/x/SKILL.md",
    ".claude/output-styles/s.md",
    "src/CLAUDE.md",
    "src/.claude/rules/d.md",
    "docs/a.md",
    "docs/b c.md",
    ".gitignore",
    "package.json",
)
OTHER_FILES = (
    f"{HOME}/.claude/CLAUDE.md",
    f"{HOME}/.claude/rules/u.md",
    f"{HOME}/.claude/settings.json",
    f"{HOME}/.claude/projects/-home-dev-p/memory/MEMORY.md",
    f"{HOME}/CLAUDE.md",
    "/etc/claude-code/CLAUDE.md",
    "/etc/claude-code/managed-settings.json",
)
PIECES = (
    "Use tabs.\n",
    "@docs/a.md ",
    "@docs/b\\ c.md\n",
    "@.git/config\n",
    "@.GIT/config ",
    "@docs/../.git/config\n",
    "@link/config\n",
    "@/srv/secret.md\n",
    "@../../../srv/secret.md\n",
    "@out/secret.md\n",
    "@~/CLAUDE.md\n",
    "@./CLAUDE.md\n",
    "<!-- gone -->\n",
    "<!-- open\n",
    "---\npaths: src/**\n---\n",
    "---\npaths: [\"*.py\", '!b.py']\n---\n",
    "---\nname: s\ndescription: d\nkeep-coding-instructions: true\n---\n",
    "---\nglobs: [\n---\n",
    "```\n",
    "# H\n\n",
    "\0",
    "€😀\u2028",
    '{"claudeMdExcludes": ["**/docs/**", "!x", "{a,b}/["], "language": "de", "outputStyle": "s"}',
    '{"autoMemoryDirectory": "/srv", "permissions": {"additionalDirectories": ["/srv", "../.."]}, "language": 3}',
    '{"autoMemoryEnabled": false',
    "*.md\n!docs/\n",
)
MODEL_NAMES = ("claude-sonnet-4-5", "claude-opus-4-8", "opus[1m]", "haiku", "llama-7", "")
TOUCHED = ("src/a.py", f"{CWD}/src/a.py", "../x", "docs/a.md", "/srv/secret.md", ".git/config")


def _workspace(drawn: Drawn) -> dict[str, Any]:
    paths = [f"{CWD}/{path}" for path in PROJECT_FILES]
    files: dict[str, Any] = dict(GIT)
    for _ in drawn.several(6):
        files[drawn.choice(paths)] = _file(drawn)
    for _ in drawn.several(2):
        files[drawn.choice(OTHER_FILES)] = _file(drawn)
    if drawn.maybe(0.3):
        files[f"{CWD}/link"] = {"link": drawn.choice((".git", "/srv", "link", "..", "docs"))}
    if drawn.maybe(0.3):
        files[f"{CWD}/out"] = {"link": "/srv"}
    more: dict[str, Any] = {"home": HOME} if drawn.maybe(0.7) else {}
    if drawn.maybe(0.4):
        more["git"] = drawn.choice(
            ({"toplevel": CWD}, {"toplevel": HOME, "branch": "main", "status": "?? a", "user": "U"})
        )
    if drawn.maybe(0.2):
        more["additional_directories"] = [drawn.choice(("/home/dev/q", "/srv", "rel", "/missing"))]
    return {"source": "inline", "cwd": drawn.choice((CWD, CWD, f"{CWD}/src")), "files": files, **more}


def _file(drawn: Drawn) -> Any:
    words = "".join(drawn.choice(PIECES) for _ in drawn.several(5))
    match drawn.randint(0, 9):
        case 0:
            return {"base64": base64.b64encode(words.encode()[: drawn.randint(0, 99)]).decode()}
        case 1:
            return {"link": drawn.choice(("docs/a.md", "/srv/secret.md", "../.git/config", "CLAUDE.md", "/nowhere"))}
        case 2:
            return {"directory": True}
        case _:
            return words


def _asked(drawn: Drawn, said: list[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": drawn.choice(MODEL_NAMES) or "m",
        "date": "2026-11-30",
        "workspace": _workspace(drawn),
        "messages": said,
    }
    options: dict[str, Any] = {
        "provider": drawn.choice(("anthropic", "bedrock", "vertex", "foundry", "custom")),
        "agent": drawn.choice(("main", "subagent", "explorer")),
        "touched": [{"path": drawn.choice(TOUCHED), "event": drawn.choice(("read", "edit"))} for _ in drawn.several(3)],
        "tools": _tools(drawn),
        "mcp_servers": [{"name": "docs", "instructions": drawn.choice(("Ask it.", "", "x" * 5000))}],
        "setting_sources": drawn.choice(([], ["user"], ["project", "local"])),
        "memory": _memory(drawn),
        "cache": {
            "enabled": drawn.maybe(0.8),
            "ttl": drawn.choice(("5m", "1h")),
            "scope": drawn.choice(("auto", "org", "off")),
            "scope_on_wire": drawn.maybe(),
            "layout": drawn.choice(("classic", "late")),
        },
        "tokens": {"method": drawn.choice(("rough", "estimate")), "percent_override": drawn.choice((None, -1.0, 50.0))},
        "system_prompt": drawn.choice(({"simple": True}, {"custom": "Mine."}, {"append": "More.", "prefix": "You."})),
        "settings": drawn.choice(({"output_style": "s", "interactive": True}, {"language": "fr"})),
        "cache_control": drawn.choice(talks.LEGAL_MARKERS),
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    return body | {name: value for name, value in options.items() if drawn.maybe(0.4)}


def _tools(drawn: Drawn) -> list[dict[str, Any]]:
    found = []
    for name in ("Read", "Skill", "mcp__docs__ask")[: drawn.randint(0, 3)]:
        marker = {"cache_control": drawn.choice(talks.LEGAL_MARKERS)} if drawn.maybe(0.2) else {}
        found.append({"name": name, "input_schema": {"type": "object"}, **marker})
    return found


def _memory(drawn: Drawn) -> dict[str, Any]:
    options = {
        "allow_external_includes": False,
        "from_additional_directories": True,
        "include_boundary": "cwd",
        "exclude": ["**/a.md", "[", "relative"],
        "agents_md": drawn.choice(("fallback", "both")),
        "trigger_events": ["read", "edit"],
        "include_raw": True,
        "bare": True,
        "enabled": False,
        "walk_stop": CWD,
    }
    return {name: value for name, value in options.items() if drawn.maybe(0.3)}


def context(data: bytes) -> None:
    """A request that is drawn, twice; of a session also its next turns, and its end."""
    drawn = Drawn(data)
    said = talks.any_talk(drawn)
    body = _asked(drawn, talks.as_sent(said))
    if drawn.maybe(0.3):
        _turns(drawn, body)
        return
    first, again = (service().post("/v1/context", _written(body)) for _ in range(2))
    assert (first.status, first.body) == (again.status, again.body) or first.status >= 400
    _holds(body, first)


def _turns(drawn: Drawn, body: dict[str, Any]) -> None:
    body["session_id"] = "a/b"
    for _ in range(2):
        _holds(body, service().post("/v1/context", _written(body)))
        body["messages"] = [*body["messages"], *talks.as_sent(talks.any_talk(drawn))]
        body["freshness"] = drawn.choice(("session", "validate", "reload"))
    for path in ("", "/context"):
        is_documented("GET", f"/v1/sessions/{{session_id}}{path}", service().ask("GET", f"/v1/sessions/a%2Fb{path}"))
    plan = {"mode": "plan", **{name: value for name, value in body.items() if name in CompactionRequest.model_fields}}
    planned = service().post("/v1/compactions", _written(plan))
    if is_documented("POST", "/v1/compactions", planned) and legal(body["messages"]):
        check(Call(planned.values["request"], frozenset(_betas(planned.values)), system_role=True))
    service().ask("DELETE", "/v1/sessions/a%2Fb")


def _written(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _holds(body: dict[str, Any], answer: Answered) -> None:
    if not is_documented("POST", "/v1/context", answer):
        return
    ContextAnswer.model_validate_json(answer.body)
    values = answer.values
    assert sum(part["tokens"] for part in values["tokens"]["parts"]) == values["tokens"]["used"]
    assert answer.headers["etag"] == f'"{values["digest"]}"'
    assert HIDDEN not in answer.body.decode()
    if not _may_name_outside(body):
        assert OUTSIDE not in answer.body.decode()
    request = {**values["request"], "max_tokens": 10_000}
    if legal(body["messages"]) or not body["messages"]:
        if request["messages"]:
            check(Call(request, frozenset(_betas(values)), system_role=True))
        found = MODELS.find(body["model"])
        assert not violations(
            request.get("tools", []),
            request.get("system", []),
            request["messages"],
            scope_allowed=body.get("cache", {}).get("scope_on_wire", False),
            automatic=request.get("cache_control"),
            provider=body.get("provider", "anthropic"),
            model=found.id,
            betas=_betas(values),
        )
    else:
        assert len(list(marked(request.get("tools", []), request.get("system", []), request["messages"]))) <= 4


def _may_name_outside(body: dict[str, Any]) -> bool:
    """Whether the user or the administrator, who are trusted, wrote something, or the caller asked for it."""
    trusted = any(path in body["workspace"]["files"] for path in OTHER_FILES)
    return trusted or "/srv" in body["workspace"].get("additional_directories", ()) or _is_linked(body, "/srv")


def _is_linked(body: dict[str, Any], to: str) -> bool:
    """Whether a file that loads by its place is a link to there."""
    files = body["workspace"]["files"]
    return any(isinstance(file, dict) and to in file.get("link", "") for file in files.values())


def _betas(values: dict[str, Any]) -> list[str]:
    given = values.get("headers", {}).get("anthropic-beta", "")
    return [one.strip() for one in given.split(",") if one.strip()]


MODELS_OF_ANSWERS: dict[str, Any] = {
    "/v1/context": ContextAnswer,
    "/v1/attachments": AttachmentsAnswer,
    "/v1/scan": ScanAnswer,
    "/v1/cache/lint": LintAnswer,
    "/v1/tokens": TokensResult,
    "/v1/compactions": None,
}


def body(data: bytes) -> None:
    """The end of a path in /v1, a line end, a body of any bytes."""
    name, _, content = data.partition(b"\n")
    path = f"/v1/{name.decode('latin-1')}"
    if path not in MODELS_OF_ANSWERS:
        return
    answer = service().post(path, content)
    if is_documented("POST", path, answer) and (model := MODELS_OF_ANSWERS[path]):
        model.model_validate_json(answer.body)
        told = answer.values.get("tokens")
        if isinstance(told, dict) and "parts" in told:
            assert sum(part["tokens"] for part in told["parts"]) == told["used"]


def scan(data: bytes) -> None:
    """A workspace that is drawn, looked through for other tools' files, and touched."""
    drawn = Drawn(data)
    workspace = _workspace(drawn)
    found = service().post("/v1/scan", _written({"workspace": workspace}))
    if is_documented("POST", "/v1/scan", found):
        ScanAnswer.model_validate_json(found.body)
        assert HIDDEN not in found.body.decode()
        assert OUTSIDE not in found.body.decode()
    touched = [{"path": drawn.choice(TOUCHED)} for _ in range(2)]
    brought = service().post("/v1/attachments", _written({"workspace": workspace, "touched": touched}))
    if is_documented("POST", "/v1/attachments", brought):
        AttachmentsAnswer.model_validate_json(brought.body)
        assert HIDDEN not in brought.body.decode()


SOURCES = {
    "project": f"{CWD}/.claude/settings.json",
    "local": f"{CWD}/.claude/settings.local.json",
    "user": f"{HOME}/.claude/settings.json",
    "managed": "/etc/claude-code/managed-settings.json",
}


def settings(data: bytes) -> None:
    """The bytes of a settings file, at each place where one may stand."""
    for source, path in SOURCES.items():
        tree = Tree({path: data})
        found = tree.configuration()
        assert [row.path for row in found.rows] in ([], [path])
        assert tree.answers().workspace.look(path).kind is Kind.FILE
        for told in (found.auto_memory, found.include_git_instructions):
            assert told is None or isinstance(told, bool)
        for told in (found.auto_memory_dir, found.language, found.output_style, *found.additional_directories):
            assert told is None or isinstance(told, str)
        assert all(directory.startswith("/") for directory in _directories(found))
        if source == "project":
            assert found.auto_memory_dir is None
            assert found.additional_directories == ()
        if found.rows:
            assert _directories(found) == [] == list(found.excludes)


def _directories(found: Any) -> list[str]:
    return [one for one in (*found.additional_directories, found.auto_memory_dir) if one is not None]


TARGETS = {"context": context, "body": body, "scan": scan, "settings": settings}
