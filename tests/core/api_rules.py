"""The API's rules for cache markers, written down a second time and apart from the code that is held to them."""

import json
import re

AN_HOUR_ANYWHERE = ("anthropic", "vertex", "foundry", "custom")
TOP_LEVEL = ("anthropic", "foundry")
GENERATION = re.compile(r"claude-[a-z]+-(\d)(?:-(\d))?")


def _walk(value, where):
    """Every JSON object below ``value``, children before parents, with a word for its place."""
    if isinstance(value, dict):
        for key, child in value.items():
            if key not in ("cache_control", "input", "input_schema"):
                yield from _walk(child, f"{where}/{key}")
        yield where, value
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            yield from _walk(child, f"{where}/{index}")


def marked(tools, system, messages):
    """(place, block, marker) of every marker in the order in which the API reads them."""
    for area, value in (("tools", tools), ("system", system), ("messages", messages)):
        for where, block in _walk(value, area):
            if block.get("cache_control") is not None:
                yield where, block, block["cache_control"]


def lasts(marker):
    return marker.get("ttl", "5m")


def takes_an_hour(provider, model):
    """``model`` is an id of the first-party API."""
    if provider in AN_HOUR_ANYWHERE:
        return True
    generation = GENERATION.fullmatch(model)
    return generation is not None and (int(generation[1]), int(generation[2] or 0)) >= (4, 5)


def cacheable(block):
    """Whether a marker may stand on it; a message's text may have one."""
    if isinstance(block, str):
        return bool(block.strip())
    if block.get("type") == "text":
        return bool(block["text"].strip())
    return block.get("type") not in ("thinking", "redacted_thinking") and not block.get("defer_loading")


def last_cacheable(tools, system, messages):
    """The block on which the API puts the request's own marker, None when nothing takes one."""
    said = [message["content"] for message in messages]
    blocks = [block for content in said for block in ([content] if isinstance(content, str) else content)]
    return next((block for block in reversed([*tools, *system, *blocks]) if cacheable(block)), None)


def _marker_violations(where, marker, hour, scope_allowed):
    if marker.get("type") != "ephemeral" or not set(marker) <= {"type", "ttl", "scope"}:
        yield f"{where}: shape {json.dumps(marker)}"
    if lasts(marker) not in ("5m", "1h"):
        yield f"{where}: ttl {marker['ttl']}"
    if lasts(marker) == "1h" and not hour:
        yield f"{where}: 1h for this provider and model"
    if "scope" in marker and not scope_allowed:
        yield f"{where}: scope"
    if marker.get("scope", "org") not in ("global", "org"):
        yield f"{where}: scope {marker['scope']}"


def _place_violations(where, block):
    if block.get("type") in ("thinking", "redacted_thinking"):
        yield f"{where}: thinking"
    if block.get("type") == "text" and not block["text"].strip():
        yield f"{where}: blank text"
    if block.get("defer_loading"):
        yield f"{where}: deferred tool"


def violations(
    tools,
    system,
    messages,
    *,
    scope_allowed=False,
    automatic=None,
    provider="anthropic",
    model="claude-opus-5",
    betas=None,
):
    """What the API would refuse; empty when the request is fine.

    ``automatic`` is the request's own marker; ``betas``, when given, must name the one for scopes.
    """
    found = []
    blocks = list(marked(tools, system, messages))
    rows = [*blocks, *([("top", {}, automatic)] if automatic is not None else [])]
    if len(rows) > 4:
        found.append(f"{len(rows)} markers")
    if automatic is not None and provider not in TOP_LEVEL:
        found.append("a marker at the top")
    if automatic is not None:
        last = last_cacheable(tools, system, messages)
        stands = last.get("cache_control") if isinstance(last, dict) else None
        if stands is not None and lasts(stands) != lasts(automatic):
            found.append("two lifetimes on the last block")
    short = False
    for where, block, marker in rows:
        scoped = scope_allowed and provider == "anthropic"
        found += _marker_violations(where, marker, takes_an_hour(provider, model), scoped)
        found += _place_violations(where, block)
        if short and lasts(marker) == "1h":
            found.append(f"{where}: 1h behind 5m")
        short = short or lasts(marker) == "5m"
    if betas is not None:
        named = any(beta.startswith("prompt-caching-scope-") for beta in betas)
        if any("scope" in marker for _, _, marker in rows) and not named:
            found.append("a scope without its beta value")
        if named and provider != "anthropic":
            found.append("a beta value for scopes")
    return found
