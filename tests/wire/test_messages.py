"""Messages as callers have them: written by hand, or a response of the API as the official SDK gives it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from anthropic.types import Message as SdkMessage
from anthropic.types.beta import BetaMessage

from app.core import facts
from app.errors import InvalidRequest
from app.wire.messages import Message, core_message
from app.wire.parsing import parsed
from tests.asking import inline

SDK = pytest.mark.parametrize("kind", [SdkMessage, BetaMessage])
OF_OURS = ("role", "content", "id", "usage", "type", "model", "stop_reason", "stop_sequence")
"""Fields of a response that are read or held to a type here."""

RESPONSE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "content": [{"type": "text", "text": "Done."}],
    "stop_reason": "refusal",
    "stop_sequence": None,
    "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."},
    "container": {"id": "container_1", "expires_at": "2026-11-30T00:00:00Z", "skills": None},
    "diagnostics": {"cache_miss_reason": None},
    "context_management": {"applied_edits": []},
    "input_transformations": [],
    "usage": {"input_tokens": 7, "output_tokens": 3, "server_tool_use": None, "service_tier": "standard"},
}
OTHERS: list[Any] = [None, {"a": {"b": [1, "c"]}}, [{"a": None}], "text", 7, True]
"""What a field may hold that nothing here looks into."""


def read(message: Any) -> facts.Message:
    return core_message(parsed(Message, json.dumps(message).encode()))


@SDK
@pytest.mark.parametrize("held", OTHERS)
def test_every_field_of_the_sdks_responses_is_taken_and_those_of_no_use_here_are_dropped(kind: Any, held: Any) -> None:
    bare = {"role": "assistant", "content": "Done."}
    fields = [name for name in kind.model_fields if name not in OF_OURS]
    assert "stop_details" in fields
    assert read(bare | dict.fromkeys(fields, held)) == read(bare)


@SDK
def test_a_whole_response_of_the_sdk_can_be_sent_back(kind: Any) -> None:
    dumped = kind.model_validate(RESPONSE).model_dump(mode="json")
    assert set(dumped) >= set(kind.model_fields)
    found = read(dumped)
    assert (found.role, found.response_id) == ("assistant", "msg_1")
    assert [block["text"] for block in found.content if not isinstance(block, str)] == ["Done."]
    assert found.usage == facts.Usage(input_tokens=7, output_tokens=3)


@SDK
@pytest.mark.parametrize("path", ["/v1/context", "/v1/tokens", "/v1/compactions"])
def test_over_http_nothing_but_its_content_reaches_the_model(kind: Any, path: str, service: httpx.Client) -> None:
    talk = [{"role": "user", "content": "Go on."}, kind.model_validate(RESPONSE).model_dump(mode="json")]
    workspace, model = inline()["workspace"], RESPONSE["model"]
    own = {"/v1/context": {"workspace": workspace}, "/v1/compactions": {"workspace": workspace, "mode": "plan"}}
    response = service.post(path, json={"model": model, "messages": talk} | own.get(path, {}))
    assert response.status_code == 200, response.text
    sent = [one for one in response.json().get("request", {"messages": []})["messages"] if one["role"] == "assistant"]
    assert all(set(one) == {"role", "content"} for one in sent)
    assert len(sent) == (path in own)


@pytest.mark.parametrize("field", ["containers", "stop_detail", "usages", "cache_control"])
def test_a_field_that_no_response_has_is_refused(field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read({"role": "assistant", "content": "Done.", field: None})
    assert [error["pointer"] for error in raised.value.errors] == [f"/{field}"]
