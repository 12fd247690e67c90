"""The API's rules for cache markers, written down a second time and apart from the code that is held to them."""

import json


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


def violations(tools, system, messages, *, scope_allowed=False):
    """What the API would refuse; empty when the request is fine."""
    found = []
    rows = list(marked(tools, system, messages))
    if len(rows) > 4:
        found.append(f"{len(rows)} markers")
    short = False
    for where, block, marker in rows:
        if marker.get("type") != "ephemeral" or not set(marker) <= {"type", "ttl", "scope"}:
            found.append(f"{where}: shape {json.dumps(marker)}")
        if marker.get("ttl", "5m") not in ("5m", "1h"):
            found.append(f"{where}: ttl {marker['ttl']}")
        if "scope" in marker and not scope_allowed:
            found.append(f"{where}: scope")
        if short and marker.get("ttl") == "1h":
            found.append(f"{where}: 1h behind 5m")
        short = short or marker.get("ttl", "5m") == "5m"
        if block.get("type") in ("thinking", "redacted_thinking"):
            found.append(f"{where}: thinking")
        if block.get("type") == "text" and not block["text"].strip():
            found.append(f"{where}: blank text")
        if block.get("defer_loading"):
            found.append(f"{where}: deferred tool")
    return found
