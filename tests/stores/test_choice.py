"""Which store a service has, by its settings."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from app.building import CannotStartError, store_of
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.redis import RedisStore

GOOD = [
    "redis://localhost",
    "redis://localhost/",
    "redis://127.0.0.1:6379/0",
    "redis://[::1]:6379/15",
    "redis://name:p%40ss%2Fword@cache.example:6380/2",
    "redis://:password@cache.example",
    "redis://cache.example?db=3",
    "rediss://cache.example:6380/0?ssl_ca_certs=/etc/ssl/ca.pem&ssl_cert_reqs=required",
    "unix:///run/redis/redis.sock",
    "unix:///run/redis/redis.sock?db=2&password=p",
]
BAD = [
    "localhost:6379",
    "http://localhost:6379",
    "redis:/localhost",
    "redis://",
    "redis:///0",
    "redis://localhost:port",
    "redis://localhost:70000",
    "redis://localhost:0",
    "redis://localhost/one",
    "redis://localhost/1/2",
    "redis://:pass#word@localhost",
    "redis://:pass/word@localhost",
    "redis://localhost?socket_timeout=1",
    "redis://localhost?ssl_cert_reqs=none",
    "redis://localhost?db=x",
    "redis://localhost?db",
    "redis://local host",
    "redis://h\u00f6st",
    "unix://",
    "unix:///",
    "unix://host/run/redis.sock",
    "unix:///s?max_connections=1",
    "sentinel://localhost",
]

BUILDS = """
import sys
from app.main import create_app
from app.settings import Settings
create_app(Settings(roots=()))
print("redis" in sys.modules)
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("STRATA_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("url", GOOD)
def test_an_address_of_a_redis_is_taken_as_it_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_REDIS_URL", f" {url}\n")
    assert Settings().redis_url == url


@pytest.mark.parametrize("url", BAD)
def test_what_is_no_address_of_a_redis_is_refused_with_a_word_and_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_REDIS_URL", url)
    with pytest.raises(ValidationError, match=r"redis://HOST:6379/0") as error:
        Settings()
    assert url not in str(error.value).replace("unix:///PATH", "").replace("redis://HOST", "").replace("rediss://", "")


@pytest.mark.parametrize("url", ["", "  ", None])
def test_without_an_address_sessions_stay_in_the_process(url: str | None) -> None:
    settings = Settings(redis_url=url, roots=())
    assert settings.redis_url is None
    assert isinstance(store_of(settings), ProcessStore)


@pytest.mark.parametrize("url", GOOD)
def test_with_an_address_they_are_shared(url: str) -> None:
    async def chosen() -> None:
        store = store_of(Settings(redis_url=url, roots=()))
        assert isinstance(store, RedisStore)
        await store.close()

    asyncio.run(chosen())


def test_the_address_with_its_password_is_in_no_description_of_the_settings() -> None:
    assert "pa55" not in repr(Settings(redis_url="redis://:pa55@localhost", roots=()))


@pytest.mark.parametrize(("given", "seconds"), [(None, 0.25), ("0.05", 0.05), ("60", 60)])
def test_how_long_redis_may_take_is_a_quarter_of_a_second_unless_it_is_said(
    given: str | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given:
        monkeypatch.setenv("STRATA_REDIS_SECONDS", given)
    assert Settings().redis_seconds == seconds


@pytest.mark.parametrize("seconds", [0, -1, 61, "soon"])
def test_a_time_that_redis_cannot_have_is_refused(seconds: Any) -> None:
    with pytest.raises(ValidationError, match="redis_seconds"):
        Settings(redis_seconds=seconds)


def test_without_the_package_the_service_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("app.stores.redis", "app.stores.hashes", "app.stores.bookings", "app.stores.connection"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(CannotStartError, match=r"pip install '\.\[redis\]'"):
        store_of(Settings(redis_url="redis://localhost", roots=()))


def test_the_package_is_not_loaded_where_nobody_asks_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", BUILDS], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
