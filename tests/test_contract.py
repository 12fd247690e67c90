from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from app.cli.commands import contract_yaml
from app.main import create_app
from app.settings import Settings
from app.wire.schema import Health, Models
from tests.asking import CONTRACT, CWD, DOCUMENTED, answered, ask, inline, local
from tests.reference.programs import first_commit, git
from tests.serving import serve

RULE = "---\npaths: src/**\n---\nRule text."
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}, {"name": "mcp__a__b", "input_schema": {}}]
USAGE = {"input_tokens": 5000, "output_tokens": 10, "service_tier": "standard"}
CONVERSATION = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "id": "msg_1", "usage": USAGE},
    {"role": "user", "content": [{"type": "text", "text": "Go on"}], "meta": {"compact_boundary": True}},
    {"role": "user", "content": "And on", "meta": True},
]
VARIED: dict[str, Any] = {
    "nothing": inline(),
    "no home": inline(workspace={"home": None}),
    "memory": inline({f"{CWD}/CLAUDE.md": "Use tabs. @gone.md @docs/a.md", f"{CWD}/docs/a.md": "A"}),
    "raw": inline({f"{CWD}/CLAUDE.md": "<!-- a -->\nb"}, memory={"include_raw": True}),
    "rules": inline({f"{CWD}/.claude/rules/a.md": RULE}, touched=[{"path": f"{CWD}/src/a.py"}]),
    "nested": inline(
        {f"{CWD}/src/CLAUDE.md": "Nested. @b.md", f"{CWD}/src/b.md": "B"},
        touched=[{"path": "src/a.py"}],
        memory={"include_raw": True},
    ),
    "conversation": inline(messages=CONVERSATION),
    "tools": inline(tools=TOOLS, mcp_servers=[{"name": "a", "instructions": "Be kind."}]),
    "long prompts": inline(system_prompt={"append": "x" * 20_000, "prefix": "You are X.", "memory_mechanics": "m"}),
    "custom": inline(system_prompt={"custom": "Only this."}),
    "simple": inline(system_prompt={"simple": True}, cache={"ttl": "1h"}),
    "no cache": inline(cache={"enabled": False}),
    "scoped": inline(cache={"scope_on_wire": True}),
    "bedrock": inline(provider="bedrock", tokens={"method": "exact", "percent_override": 500}),
    "unknown model": inline(model="gpt-4"),
    "session": inline(session_id="a session"),
    "git facts": inline(workspace={"git": {"toplevel": CWD, "branch": "main", "status": "", "log": ["a1 b"]}}),
    "windows": inline(
        {r"C:\p\CLAUDE.md": "Windows."},
        workspace={"cwd": r"C:\p", "home": r"C:\Users\dev", "platform": "windows"},
    ),
    "settings": inline(
        settings={
            "output_style": "Explanatory",
            "language": "Deutsch",
            "scratchpad_dir": "/home/dev/scratch",
            "function_result_clearing": 3,
            "summarize_tool_results": True,
            "model_override": "Say less.",
            "interactive": True,
            "cache_breaker": "1",
        }
    ),
    "whole numbers of any size": inline(tools=[{"name": "n", "input_schema": {"maximum": 10**40}}]),
    "window of any size": inline(tokens={"max_context_tokens": 10**30}),
}


@pytest.fixture(scope="module")
def keyed() -> Iterator[httpx.Client]:
    with (
        serve(create_app(Settings(api_keys=("k1",), roots=(), max_body_bytes=2000))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


def test_the_written_contract_is_the_running_one() -> None:
    how = "write it anew: strata openapi > openapi.yaml"
    assert CONTRACT.read_text(encoding="utf-8") == contract_yaml(Settings()), how


def test_the_contract_is_what_the_service_publishes(service: httpx.Client) -> None:
    assert service.get("/openapi.json").json() == yaml.safe_load(CONTRACT.read_bytes())


def test_the_contract_is_valid_openapi() -> None:
    validate(yaml.safe_load(CONTRACT.read_bytes()))


def test_no_setting_changes_the_contract(tmp_path: Path) -> None:
    other = Settings(host="0.0.0.0", port=1, api_keys=("k",), roots=(tmp_path,), home=None, workers=3)
    assert contract_yaml(other) == contract_yaml(Settings())


@pytest.mark.parametrize("body", VARIED.values(), ids=VARIED)
def test_every_answer_is_as_the_contract_has_it(body: Any, service: httpx.Client) -> None:
    ask(service, body)


def test_answers_for_folders_and_commits_are_as_the_contract_has_them(service: httpx.Client, tmp_path: Path) -> None:
    repository = tmp_path / "app"
    git(repository, "init", "--quiet", "--initial-branch=main")
    first_commit(repository)
    (repository / "CLAUDE.md").write_text("Local.")
    ask(service, local(repository))
    ask(service, inline(workspace={"source": "git", "cwd": None, "files": {}, "repository": str(repository)}))


def test_the_other_answers_are_as_the_contract_has_them(service: httpx.Client) -> None:
    Models.model_validate_json(service.get("/v1/models").content)
    Health.model_validate_json(service.get("/healthz").content)
    Health.model_validate_json(service.get("/readyz").content)


def test_every_operation_documents_what_the_guard_and_a_fault_answer() -> None:
    everywhere = {"401", "403", "421", "500"}
    assert [operation for operation, statuses in DOCUMENTED.items() if not everywhere <= statuses] == []


def test_every_status_that_appears_is_documented(keyed: httpx.Client, tmp_path: Path) -> None:
    key = {"x-api-key": "k1"}
    missing = local(tmp_path)
    answers = [
        keyed.post("/v1/context", json=inline(), headers=key),
        keyed.post("/v1/context", content=b"{", headers=key | {"content-type": "application/json"}),
        keyed.post("/v1/context", json=inline()),
        keyed.post("/v1/context", json=missing, headers=key),
        keyed.post("/v1/context", json=inline({"/a": "x" * 3000}), headers=key),
        keyed.post("/v1/context", content=b"{}", headers=key),
        keyed.post("/v1/context", json={}, headers=key),
        keyed.post("/v1/context", json=inline(), headers=key | {"host": "evil.example"}),
        keyed.get("/v1/models"),
        keyed.get("/v1/models", headers=key),
        keyed.get("/healthz"),
        keyed.get("/readyz"),
    ]
    assert [answer.status_code for answer in answers] == [
        200, 400, 401, 404, 413, 415, 422, 421, 401, 200, 200, 200,
    ]  # fmt: skip
    for answer in answers:
        operation = DOCUMENTED[answer.request.method, answer.request.url.path]
        assert str(answer.status_code) in operation


def test_the_problem_shape_is_documented_for_every_failure() -> None:
    document = yaml.safe_load(CONTRACT.read_bytes())
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                problem = answer["content"].get("application/problem+json")
                assert (problem is not None) == (status[0] in "45" and answer["description"] == "A problem")


def test_an_answer_with_a_field_too_many_is_not_as_the_contract_has_it(service: httpx.Client) -> None:
    answer = service.post("/v1/context", json=inline(), headers={"accept-encoding": "identity"})
    tampered = httpx.Response(200, headers=answer.headers, content=answer.content[:-1] + b',"more":1}')
    with pytest.raises(ValueError, match="Extra inputs"):
        answered(tampered)


def held_to_the_document(answer: dict[str, Any], name: str) -> list[str]:
    """Where an answer differs from what the written contract says of it."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": WRITTEN["components"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(answer)]


WRITTEN = yaml.safe_load((Path(__file__).parents[1] / "openapi.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/context", inline({f"{CWD}/CLAUDE.md": "a @b.md"}, messages=[{"role": "user", "content": "Hi"}])),
        (
            "/v1/attachments",
            {"workspace": inline({f"{CWD}/a/CLAUDE.md": "n"})["workspace"], "touched": [{"path": "a/b"}]},
        ),
        ("/v1/scan", {"workspace": inline({f"{CWD}/AGENTS.md": "n"})["workspace"]}),
    ],
)
def test_a_real_answer_fits_the_written_document_itself(path: str, body: dict[str, Any], service: httpx.Client) -> None:
    operation = WRITTEN["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    answer = service.post(path, json=body)
    assert answer.status_code == 200
    assert held_to_the_document(answer.json(), operation["$ref"].rpartition("/")[2]) == []


def test_a_body_that_is_accepted_fits_the_written_document(service: httpx.Client) -> None:
    body = inline({f"{CWD}/CLAUDE.md": "a"}, memory={"bare": True}, tokens={"auto_compact": False}, cache={"ttl": "1h"})
    assert service.post("/v1/context", json=body).status_code == 200
    assert held_to_the_document(body, "ContextRequest") == []
    assert held_to_the_document({**body, "bogus": 1}, "ContextRequest") != []
