"""The contract as a page for people: plain HTML in one piece, which asks for nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from app.page.examples import BODIES, SESSION
from app.page.shapes import Shapes, prose

PROBLEM = "application/problem+json"
JSON = "application/json"
INTRODUCTION = (
    "The lines for a shell need the service's address: <code>STRATA=http://127.0.0.1:8787</code>. Where keys are "
    'configured, add <code>-H "x-api-key: $KEY"</code>. For programs: <a href="openapi.json">the contract as JSON</a>.'
)

Operation = Mapping[str, Any]
Kind = tuple[int, str, str]
"""Status, type and title of a problem."""


def load_style() -> str:
    return files("app.page").joinpath("contract.css").read_text(encoding="utf-8")


def policy(style: str) -> str:
    """What a browser may do with the page: show it, with this style."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def contract_page(document: Mapping[str, Any], problems: Sequence[Kind], style: str) -> str:
    """HTML of an OpenAPI document whose ``problems`` all have one shape."""
    about, by_tag = document["info"], _by_tag(document["paths"])
    shapes = Shapes(document.get("components", {}).get("schemas", {}))
    title = escape(about["title"])
    sections = "".join(_section(tag, operations, shapes) for tag, operations in by_tag.items())
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{style}</style></head><body><nav>{_contents(by_tag)}</nav><main>"
        f"<header><h1>{title} <small>{escape(about['version'])}</small></h1>{prose(about.get('description', ''))}"
        f"<p>{INTRODUCTION}</p></header>{sections}{_problems(problems, shapes)}</main></body></html>\n"
    )


def _by_tag(paths: Mapping[str, Mapping[str, Operation]]) -> dict[str, list[tuple[str, str, Operation]]]:
    found: dict[str, list[tuple[str, str, Operation]]] = {}
    for path, operations in paths.items():
        for method, operation in operations.items():
            found.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return found


def _contents(by_tag: Mapping[str, list[tuple[str, str, Operation]]]) -> str:
    return "".join(_listed(tag, operations) for tag, operations in by_tag.items()) + _linked("problems", "Problems")


def _listed(tag: str, operations: list[tuple[str, str, Operation]]) -> str:
    links = [_linked(one["operationId"], f"{_method(method)} {escape(path)}") for method, path, one in operations]
    return f"<p>{escape(tag)}</p>{''.join(links)}"


def _linked(anchor: str, shown: str) -> str:
    return f'<a href="#{escape(anchor)}">{shown}</a>'


def _method(method: str) -> str:
    return f'<b class="{escape(method.lower())}">{escape(method)}</b>'


def _section(tag: str, operations: list[tuple[str, str, Operation]], shapes: Shapes) -> str:
    shown = "".join(_operation(method, path, operation, shapes) for method, path, operation in operations)
    return f"<section><h2>{escape(tag)}</h2>{shown}</section>"


def _operation(method: str, path: str, operation: Operation, shapes: Shapes) -> str:
    return (
        f'<article id="{escape(operation["operationId"])}"><h3>{_method(method)} <code>{escape(path)}</code></h3>'
        f"{prose(operation.get('description', ''))}{_parameters(operation, shapes)}{_body(operation, shapes)}"
        f"{''.join(_answers(operation, shapes))}<h4>In a shell</h4>{_command(method, path)}</article>"
    )


def _parameters(operation: Operation, shapes: Shapes) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{escape(shapes.kind(one.get('schema', {})))}</td><td>{'required' if one.get('required') else ''}</td>"
        f"<td>{prose(one.get('description', ''))}</td></tr>"
        for one in operation.get("parameters", ())
    )
    return f"<h4>Parameters</h4><table>{rows}</table>" if rows else ""


def _body(operation: Operation, shapes: Shapes) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return "".join(f"<h4>Body <i>{escape(kind)}</i></h4>{_shape(one, shapes)}" for kind, one in content.items())


def _shape(content: Mapping[str, Any], shapes: Shapes) -> str:
    schema = content.get("schema", {})
    shown = shapes.shown(schema)
    summary = f"<summary>{escape(shapes.kind(schema))}</summary>"
    return f'<details class="whole">{summary}{shown}</details>' if shown else f"<p>{escape(shapes.kind(schema))}</p>"


def _answers(operation: Operation, shapes: Shapes) -> Iterator[str]:
    """Answers with a shape of their own each; the problems in one line."""
    problems = []
    for status, answer in operation["responses"].items():
        content = answer.get("content", {})
        if PROBLEM in content:
            problems.append(status)
            continue
        shown = "".join(_shape(one, shapes) for one in content.values())
        kinds = " ".join(f"<i>{escape(kind)}</i>" for kind in content)
        yield f"<h4>{escape(status)} {kinds}</h4>{shown or prose(answer['description'])}"
    links = " ".join(_linked(f"problem-{status}", escape(status)) for status in sorted(problems))
    yield f'<p class="problems">Problems: {links}</p>' if links else ""


def _command(method: str, path: str) -> str:
    """A line that works once the example of POST /v1/context was sent."""
    address = f'"$STRATA{path.replace("{session_id}", SESSION)}"'
    asks = {"GET": "curl -s", "POST": "curl -s"}.get(method, f"curl -s -X {method}")
    streams = " -N" if path.endswith("/events") else ""
    body = BODIES.get(f"{method} {path}")
    sent = "" if body is None else f" -H 'content-type: {JSON}' -d {_quoted(json.dumps(body, indent=2))}"
    return f"<pre>{escape(f'{asks}{streams} {address}{sent}', quote=False)}</pre>"


def _quoted(text: str) -> str:
    """As one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _problems(kinds: Sequence[Kind], shapes: Shapes) -> str:
    named: set[int] = set()
    rows = []
    for status, kind, title in sorted(kinds):
        anchor = "" if status in named else f' id="problem-{status}"'
        named.add(status)
        rows.append(f"<tr{anchor}><td>{status}</td><td><code>{escape(kind)}</code></td><td>{escape(title)}</td></tr>")
    body = shapes.shown({"$ref": "#/components/schemas/ProblemBody"})
    return (
        f'<section id="problems"><h2>problems</h2><p>Every failure is <i>{PROBLEM}</i>; its <code>type</code> is '
        f"<code>urn:strata:problem:</code> and one of these.</p><table>{''.join(rows)}</table>"
        f'<details class="whole"><summary>ProblemBody</summary>{body}</details></section>'
    )
