from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.core.keys import hashed
from app.settings import ConfigFileError, Settings

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this machine's own settings."""
    for name in [name for name in os.environ if name.startswith("STRATA_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def write(text: str | bytes) -> Path:
        file = tmp_path / "strata.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.setenv("STRATA_CONFIG", str(file))
        return file

    return write


def test_nothing_given_is_a_service_for_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings()
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8787, 1)
    assert (settings.home, settings.roots) == (tmp_path, (tmp_path, Path(tempfile.gettempdir())))
    assert (settings.api_keys, settings.allowed_hosts, settings.max_context_tokens) == ((), (), None)


def test_sessions_may_take_half_a_gibibyte_unless_it_is_said() -> None:
    assert Settings().max_session_bytes == 512 * 1024 * 1024


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "HOST": "0.0.0.0",
        "PORT": "80",
        "ROOTS": os.pathsep.join(["/srv/a", "", "relative/b"]),
        "API_KEYS": " one, two ,,",
        "ALLOWED_HOSTS": "a.example,b.example",
        "WORKERS": "4",
        "HOME": "/home/ada",
        "MAX_BODY_BYTES": "10",
        "GIT_TIMEOUT_SECONDS": "0.5",
        "MAX_CONTEXT_TOKENS": "1000",
        "LOG_LEVEL": "WARNING",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"STRATA_{name}", value)
    settings = Settings()
    assert (settings.host, settings.port, settings.workers, settings.home) == ("0.0.0.0", 80, 4, Path("/home/ada"))
    assert settings.roots == (Path("/srv/a"), Path("relative/b"))
    assert settings.api_keys == (hashed("one"), hashed("two"))
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert (settings.max_body_bytes, settings.git_timeout_seconds, settings.max_context_tokens) == (10, 0.5, 1000)
    assert settings.log_level == "warning"


def test_a_toml_file_is_read(written: Any) -> None:
    written('port = 9\nroots = ["/srv/a", "/srv/b"]\napi_keys = ["k"]\nallowed_hosts = "a.example, b.example"')
    settings = Settings()
    assert (settings.port, settings.roots) == (9, (Path("/srv/a"), Path("/srv/b")))
    assert (settings.api_keys, settings.allowed_hosts) == ((hashed("k"),), ("a.example", "b.example"))


def test_roots_in_a_toml_file_may_be_written_like_path(written: Any) -> None:
    written(f'roots = "/srv/a{os.pathsep}/srv/b"')
    assert Settings().roots == (Path("/srv/a"), Path("/srv/b"))


def test_what_is_given_wins_over_the_environment_and_that_over_the_file(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("port = 1\nworkers = 2\nmax_sessions = 3")
    monkeypatch.setenv("STRATA_PORT", "10")
    monkeypatch.setenv("STRATA_WORKERS", "20")
    settings = Settings(port=100)
    assert (settings.port, settings.workers, settings.max_sessions) == (100, 20, 3)


def test_an_empty_name_of_a_file_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CONFIG", "")
    assert Settings().port == 8787


def test_a_file_that_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(
        ConfigFileError, match=r"STRATA_CONFIG names .*none\.toml, which cannot be read: .*No such file"
    ):
        Settings()


def test_a_folder_is_no_file_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CONFIG", str(tmp_path))
    with pytest.raises(ConfigFileError, match="Is a directory"):
        Settings()


@pytest.mark.parametrize("text", ["port = ", "port 8787", b"\xff", "port = 1\nport = 2"])
def test_a_broken_file_says_so(text: str | bytes, written: Any) -> None:
    file = written(text)
    with pytest.raises(ConfigFileError, match=f"STRATA_CONFIG names {file}, which cannot be read: "):
        Settings()


@pytest.mark.parametrize("text", ["prot = 8787", "[strata]\nport = 1"])
def test_a_key_that_is_no_setting_is_refused(text: str, written: Any) -> None:
    written(text)
    with pytest.raises(ValidationError) as raised:
        Settings()
    assert [fault["type"] for fault in raised.value.errors()] == ["extra_forbidden"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "http"),
        ("WORKERS", "0"),
        ("MAX_BODY_BYTES", "0"),
        ("MAX_FILE_BYTES", "-1"),
        ("MAX_SESSION_BYTES", "0"),
        ("SESSION_IDLE_SECONDS", "0"),
        ("GIT_TIMEOUT_SECONDS", "0"),
        ("MAX_CONTEXT_TOKENS", "0"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"STRATA_{name}", value)
    with pytest.raises(ValidationError) as raised:
        Settings()
    assert [fault["loc"] for fault in raised.value.errors()] == [(name.lower(),)]


def test_there_are_no_prices_of_the_services_own() -> None:
    assert (Settings().prices, Settings().currency) == ({}, "USD")


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_prices_may_be_left_empty(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_PRICES", text)
    assert Settings().prices == {}


def test_prices_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_PRICES", '{"claude-sonnet-5-5": 3, "my-model": 0.25}')
    monkeypatch.setenv("STRATA_CURRENCY", "EUR")
    assert (Settings().prices, Settings().currency) == ({"claude-sonnet-5-5": 3.0, "my-model": 0.25}, "EUR")


def test_prices_are_a_table_in_the_file_and_those_of_the_environment_win(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written('currency = "EUR"\n[prices]\nsonnet = 3\n"my.model" = 0.25')
    assert (Settings().prices, Settings().currency) == ({"sonnet": 3.0, "my.model": 0.25}, "EUR")
    monkeypatch.setenv("STRATA_PRICES", '{"opus": 5}')
    assert Settings().prices == {"opus": 5.0}


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("sonnet=3", ("prices",), 'write JSON, as in {"claude-sonnet-5-5": 3.0}'),
        ("[" * 100_000, ("prices",), "write JSON"),
        ("[3]", ("prices",), "valid dictionary"),
        ('{"sonnet": "3"}', ("prices", "sonnet"), "valid number"),
        ('{"sonnet": true}', ("prices", "sonnet"), "valid number"),
        ('{"sonnet": null}', ("prices", "sonnet"), "valid number"),
        ('{"sonnet": 0}', ("prices", "sonnet"), "greater than 0"),
        ('{"sonnet": -1}', ("prices", "sonnet"), "greater than 0"),
        ('{"sonnet": NaN}', ("prices", "sonnet"), "finite number"),
        ('{"sonnet": 1e999}', ("prices", "sonnet"), "finite number"),
        ('{"": 3}', ("prices", "", "[key]"), "at least 1 character"),
        ('{"sonnet": 3, "sonnet": 4}', ("prices",), "a name is written twice"),
        ('{"sonnet": 3, "claude-sonnet-5-5": 4}', ("prices",), "sonnet and claude-sonnet-5-5 are one model"),
    ],
)
def test_prices_that_make_no_sense_are_refused(
    text: str, place: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_PRICES", text)
    with pytest.raises(ValidationError) as raised:
        Settings()
    (fault,) = raised.value.errors()
    assert fault["loc"] == place
    assert said in fault["msg"]


@pytest.mark.parametrize("code", ["", "usd", "EURO", "US", "US$", "USD\n"])
def test_a_currency_is_three_capital_letters(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CURRENCY", code)
    with pytest.raises(ValidationError) as raised:
        Settings()
    assert [fault["loc"] for fault in raised.value.errors()] == [("currency",)]


def test_no_key_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_API_KEYS", "sk-secret")
    assert "sk-secret" not in repr(Settings())
    with pytest.raises(ValidationError) as raised:
        Settings(port=-1)
    assert "sk-secret" not in str(raised.value)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


def test_a_service_for_other_machines_shows_no_folder_by_itself() -> None:
    assert Settings(host="0.0.0.0", api_keys=("k",)).roots == ()


def test_a_home_that_is_the_root_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert Settings().roots == (Path(tempfile.gettempdir()),)


def test_an_account_without_a_home_has_none() -> None:
    told = "import os; os.setuid(54321); from app.settings import Settings; print(Settings().home, *Settings().roots)"
    if os.geteuid() != 0:
        told = told.replace("os.setuid(54321); ", "__import__('pwd').getpwuid = {}.__getitem__; ")
    kept = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", f"from app import settings; {told}"], env=kept, cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == ["None", tempfile.gettempdir()]


@pytest.mark.parametrize(("system", "platform"), [("linux", "linux"), ("darwin", "macos"), ("win32", "windows")])
def test_the_platform_is_told_in_the_words_of_the_contract(
    system: str, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=None, roots=())
    monkeypatch.setattr(sys, "platform", system)
    assert settings.platform == platform
