"""The page for people: whole, self-contained, and nothing in it that a browser would run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Problem
from app.page.contract import contract_page, load_style, policy
from app.page.examples import BODIES, SESSION
from tests.asking import CONTRACT

WRITTEN: dict[str, Any] = yaml.load(CONTRACT.read_bytes(), Loader=yaml.CSafeLoader)
KINDS = [(kind.status, kind.type, kind.title) for kind in Problem.__subclasses__()]
PAGE = contract_page(WRITTEN, KINDS, load_style())
OPERATIONS = [
    (method.upper(), path, operation)
    for path, operations in WRITTEN["paths"].items()
    for method, operation in operations.items()
]
VOID = {"meta", "link"}
KNOWN_TAGS = VOID | {
    "html", "head", "title", "style", "body", "nav", "main", "header", "section", "article", "details", "summary",
    "h1", "h2", "h3", "h4", "p", "a", "b", "i", "small", "span", "code", "pre", "table", "tr", "td", "div",
}  # fmt: skip
KNOWN_ATTRIBUTES = {"lang", "charset", "name", "content", "rel", "href", "class", "id"}


class Reading(HTMLParser):
    """Takes a page that is well formed; keeps its tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.commands: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open and self.open[-1] == "pre":
            self.commands.append(data)

    def values(self, attribute: str) -> list[str]:
        return [value or "" for name, value in self.attributes if name == attribute]


READ = Reading(PAGE)


def test_it_is_well_formed() -> None:
    assert PAGE.startswith("<!doctype html>\n")
    assert READ.open == []


def test_a_browser_asks_nobody_for_anything_and_runs_nothing() -> None:
    assert READ.tags <= KNOWN_TAGS
    assert {name for name, _ in READ.attributes} <= KNOWN_ATTRIBUTES
    assert {link for link in READ.values("href") if not link.startswith("#")} == {"data:,", "openapi.json"}
    assert re.findall(r"url\(|@import|expression\(", load_style()) == []


def test_the_policy_lets_through_the_page_s_own_style_and_nothing_else() -> None:
    style = re.findall(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    assert len(style) == 1
    assert dict(part.split(" ", 1) for part in policy(load_style()).split("; ")) == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_every_link_leads_somewhere() -> None:
    places = READ.values("id")
    assert len(set(places)) == len(places)
    assert {link[1:] for link in READ.values("href") if link.startswith("#")} <= set(places)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=lambda one: one if str(one)[0] == "/" else "")
def test_every_operation_is_told_whole(method: str, path: str, operation: dict[str, Any]) -> None:
    article = re.search(rf'<article id="{operation["operationId"]}">(.*?)</article>', PAGE, re.DOTALL)
    assert article is not None
    said = Reading(article[1]).texts
    assert {method, path, *operation["responses"]} <= {word for text in said for word in text.split()}
    for parameter in operation.get("parameters", ()):
        assert parameter["name"] in said


@pytest.mark.parametrize("name", sorted(WRITTEN["components"]["schemas"]))
def test_every_field_of_every_schema_is_shown(name: str) -> None:
    fields = WRITTEN["components"]["schemas"][name].get("properties", {})
    assert set(fields) <= set(READ.texts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_every_problem_is_named(kind: tuple[int, str, str]) -> None:
    status, named, title = kind
    assert {str(status), named, title} <= set(READ.texts)


# Examples


def test_every_operation_with_a_body_has_an_example_and_no_other() -> None:
    assert {f"{method} {path}" for method, path, operation in OPERATIONS if "requestBody" in operation} == set(BODIES)


def test_a_line_for_a_shell_says_what_the_example_says() -> None:
    lines = [shlex.split(line) for line in READ.commands]
    sent = [json.loads(line[line.index("-d") + 1]) for line in lines if "-d" in line]
    assert len(lines) == len(OPERATIONS)
    assert all(line[0] == "curl" for line in lines)
    assert len(sent) == len(BODIES)
    assert all(body in BODIES.values() for body in sent)


@pytest.mark.parametrize("operation", BODIES)
def test_the_service_takes_every_example(operation: str, service: httpx.Client) -> None:
    service.post("/v1/context", json=BODIES["POST /v1/context"]).raise_for_status()
    method, path = operation.split()
    answer = service.request(method, path.replace("{session_id}", SESSION), json=BODIES[operation])
    assert answer.status_code == 200, answer.text


# Strange contracts


HOSTILE = st.sampled_from(["<script>alert(1)</script>", '"><img src=x onerror=1>', "'`&amp;</pre>", "a b", "``<b>``"])


def strange(text: str) -> dict[str, Any]:
    schema = {"type": "object", "description": text, "properties": {text: {"type": text, "default": text}}}
    answers = {
        "200": {"description": text, "content": {text: {"schema": schema}}},
        "204": {"description": text},
        text: {"description": text, "content": {"application/problem+json": {}}},
    }
    operation = {
        "tags": [text],
        "operationId": text,
        "description": text,
        "parameters": [{"name": text, "in": text, "description": text}],
        "requestBody": {"content": {text: {"schema": {"enum": [text]}}}},
        "responses": answers,
    }
    named = {"ProblemBody": {"properties": {text: {"$ref": "#/x/ProblemBody"}}}}
    return {
        "info": {"title": text, "version": text, "description": text},
        "paths": {f"/{text}": {text: operation}},
        "components": {"schemas": named},
    }


@given(HOSTILE | st.text(min_size=1))
def test_whatever_a_contract_says_stays_text(text: str) -> None:
    read = Reading(contract_page(strange(text), [(418, text, text)], "p{}"))
    assert read.open == []
    assert read.tags <= KNOWN_TAGS
    assert {name for name, _ in read.attributes} <= KNOWN_ATTRIBUTES
    assert {link for link in read.values("href") if not link.startswith("#")} == {"data:,", "openapi.json"}
