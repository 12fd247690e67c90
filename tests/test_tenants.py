"""What one tenant has had done takes the other one as much work as if nobody had: nothing to be told by time.

Work is counted: parsed documents, requests upstream, questions to the disk. tests/test_keys.py has who may see what.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.asking import ask, inline
from tests.compacting import KEY, asking
from tests.standin.server import Hold, StandIn
from tests.test_keys import calling, keyed, row

TEXT = "Prices are in *cents*. <!-- a --> @docs/a.md `code`\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def figure(client: httpx.Client, name: str) -> float:
    found = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name + " ")]
    return float(found[0].split()[-1]) if found else 0.0


def spent(client: httpx.Client, name: str, work: Callable[[], Any]) -> float:
    before = figure(client, name)
    work()
    return figure(client, name) - before


def test_a_text_that_another_tenant_sent_is_parsed_again(file: Path) -> None:
    body = inline({"/home/dev/p/CLAUDE.md": TEXT})
    missed = 'strata_cache_lookups_total{layer="documents",result="miss"}'
    with keyed(file, row("a"), row("b")) as address, calling(address, "a") as a, calling(address, "b") as b:
        first = spent(a, missed, lambda: ask(a, body))
        again = spent(a, missed, lambda: ask(a, body | {"date": "2026-12-01"}))
        other = spent(b, missed, lambda: ask(b, body))
    assert (first, again, other) == (1, 0, 1)


def test_a_count_that_another_tenant_asked_for_is_asked_again(file: Path, upstream: StandIn, upstream_url: str) -> None:
    body = inline({"/home/dev/p/CLAUDE.md": TEXT}, tokens={"method": "exact"})
    settings = {"upstream_url": upstream_url, "anthropic_api_key": KEY}
    missed = 'strata_cache_lookups_total{layer="counts",result="miss"}'
    with keyed(file, row("a"), row("b"), **settings) as address, calling(address, "a") as a, calling(address, "b") as b:
        found = [spent(client, missed, lambda: ask(client, body)) for client in (a, a, b)]  # noqa: B023 - at once
    assert found == [1, 0, 1]


def test_a_compaction_of_another_tenants_session_of_the_same_name_is_not_waited_for(
    file: Path, upstream: StandIn, upstream_url: str
) -> None:
    settings = {"upstream_url": upstream_url, "anthropic_api_key": KEY}
    with keyed(file, row("a"), row("b"), **settings) as address, calling(address, "a") as a, calling(address, "b") as b:
        released, held = threading.Event(), list[httpx.Response]()
        upstream.answer_next(Hold(released))
        slow = threading.Thread(target=lambda: held.append(a.post("/v1/compactions", json=asking(session_id="s"))))
        slow.start()
        upstream.asked.wait()
        ran = b.post("/v1/compactions", json=asking(session_id="s")).json()
        released.set()
        slow.join()
    assert (ran["outcome"], ran["repeated"]) == ("ok", False)
    assert (held[0].json()["outcome"], held[0].json()["repeated"]) == ("ok", False)
