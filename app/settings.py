"""Settings: ``STRATA_…`` variables, or a TOML file named by ``STRATA_CONFIG``; what the command line says wins."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.core.costs import DEFAULT_CURRENCY, priced
from app.core.facts import Platform
from app.core.keys import hashed
from app.data.tables import load_models
from app.origins import written
from app.redis_address import is_redis_address

CONFIG = "STRATA_CONFIG"
DAY = 24 * 3600
OTHER_VARIABLES = frozenset({"STRATA_CONFIG", "STRATA_VENV"})
"""Variables that are no settings: the file's place, the scripts' environment."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(?:/[\x21-\x7e]*)?")
_EXPONENT = re.compile(r"[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{1,2}")

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+")
_PLATFORMS: dict[str, Platform] = {"darwin": "macos", "win32": "windows"}


class ConfigFileError(ValueError):
    """The file that STRATA_CONFIG names cannot be read as TOML."""


def _home() -> Path | None:
    """None for an account without a home folder, such as one of a container."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def _default_roots(validated: dict[str, Any]) -> tuple[Path, ...]:
    """Home and temporary folder for a service that only this machine reaches. A home that is the root is none."""
    if validated.get("host") not in LOOPBACK:
        return ()
    home = _home()
    homes = () if home is None or home == home.parent else (home,)
    return (*homes, Path(tempfile.gettempdir()))


ModelName = Annotated[str, Field(min_length=1)]
Amount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Frozen, read once, by `main`. Sizes are in bytes, times in seconds, prices of a million input tokens.

    Raises ConfigFileError beside pydantic's ValidationError.
    """

    model_config = SettingsConfigDict(
        env_prefix="STRATA_",
        frozen=True,
        extra="forbid",
        enable_decoding=False,
        hide_input_in_errors=True,
        populate_by_name=True,
    )

    host: str = "127.0.0.1"
    roots: Annotated[tuple[Path, ...], NoDecode] = Field(default_factory=_default_roots)
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    workers: Annotated[int, Field(ge=1)] = 1
    home: Path | None = Field(default_factory=_home)
    api_keys: Annotated[tuple[str, ...], NoDecode] = Field(default=(), repr=False)
    keys_file: Path | None = None
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = ()
    max_body_bytes: Annotated[int, Field(ge=1)] = 32 * 1024 * 1024
    max_file_bytes: Annotated[int, Field(ge=1)] = 1024 * 1024
    max_file_cache_bytes: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    max_document_cache_bytes: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    max_memory_bytes: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    max_rules: Annotated[int, Field(ge=1)] = 5_000
    max_includes: Annotated[int, Field(ge=1)] = 1_000
    max_patterns: Annotated[int, Field(ge=1)] = 20_000
    max_looks: Annotated[int, Field(ge=100)] = 200_000
    max_files: Annotated[int, Field(ge=1)] = 20_000
    max_values: Annotated[int, Field(ge=100)] = 200_000
    max_depth: Annotated[int, Field(ge=8, le=256)] = 128
    max_requests: Annotated[int, Field(ge=1)] = 32
    max_queue: Annotated[int, Field(ge=0)] = 256
    queue_seconds: Annotated[float, Field(gt=0, le=DAY)] = 5
    max_upstream_requests: Annotated[int, Field(ge=1)] = 64
    max_bodies_bytes: Annotated[int, Field(ge=1)] = 128 * 1024 * 1024
    max_head_bytes: Annotated[int, Field(ge=4096, le=1024 * 1024)] = 64 * 1024
    max_connections: Annotated[int, Field(ge=1)] = 4_096
    head_seconds: Annotated[float, Field(gt=0, le=DAY)] = 10
    body_seconds: Annotated[float, Field(gt=0, le=DAY)] = 30
    send_seconds: Annotated[float, Field(gt=0, le=DAY)] = 30
    drain_seconds: Annotated[float, Field(gt=0, le=DAY)] = 10
    max_sessions: Annotated[int, Field(ge=1)] = 10_000
    max_session_bytes: Annotated[int, Field(ge=1)] = 512 * 1024 * 1024
    max_warm_bytes: Annotated[int, Field(ge=0)] = 128 * 1024 * 1024
    warm_seconds: Annotated[float, Field(gt=0, le=60)] = 10
    session_idle_seconds: Annotated[float, Field(gt=0)] = 12 * 3600
    heartbeat_seconds: Annotated[float, Field(gt=0, le=DAY)] = 15
    watched_seconds: Annotated[float, Field(gt=0, le=DAY)] = 5
    polled_seconds: Annotated[float, Field(gt=0, le=DAY)] = 1
    max_listeners: Annotated[int, Field(ge=1)] = 1_000
    max_session_listeners: Annotated[int, Field(ge=1)] = 16
    redis_url: str | None = Field(default=None, repr=False)
    redis_seconds: Annotated[float, Field(gt=0, le=60)] = 0.25
    request_seconds: Annotated[float, Field(gt=0)] = 20
    git_timeout_seconds: Annotated[float, Field(gt=0)] = 5
    max_context_tokens: Annotated[int, Field(ge=1)] | None = None
    upstream_url: str | None = None
    anthropic_api_key: str | None = Field(default=None, repr=False, validation_alias="ANTHROPIC_API_KEY")
    upstream_seconds: Annotated[float, Field(gt=0, le=DAY)] = 20
    upstream_retries: Annotated[int, Field(ge=0, le=10)] = 2
    count_seconds: Annotated[float, Field(gt=0, le=DAY)] = 10
    compact_seconds: Annotated[float, Field(gt=0, le=DAY)] = 300
    breaker_cool_down_seconds: Annotated[float, Field(ge=0, le=DAY)] = 0
    prices: Annotated[dict[ModelName, Amount], NoDecode] = Field(default_factory=dict)
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = DEFAULT_CURRENCY
    traces_url: str | None = None
    slow_seconds: Annotated[float, Field(gt=0, le=DAY)] = 1
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"

    @field_validator("roots", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return [path for path in value.split(os.pathsep) if path] if isinstance(value, str) else value

    @field_validator("api_keys", "allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value

    @field_validator("api_keys")
    @classmethod
    def _are_not_kept(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(hashed(key) for key in value))

    @field_validator("allowed_hosts")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_HOST_NAME.fullmatch(name) for name in value):
            raise ValueError("write names such as strata.example, without a port; * is not taken")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        origins = tuple(written(origin) for origin in value)
        if None in origins:
            raise ValueError("write an origin such as https://app.example, without a path; * and null are not taken")
        return tuple(origin for origin in origins if origin)

    @field_validator("*", mode="before")
    @classmethod
    def _exponents_are_numbers(cls, value: Any) -> Any:
        """A whole number may be written as 2e4."""
        written = value.strip() if isinstance(value, str) else ""
        return str(int(float(written))) if _EXPONENT.fullmatch(written) and float(written).is_integer() else value

    @field_validator("upstream_url", "traces_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "http://none")
        plain = _ADDRESS.fullmatch(value or "http://none") and parts.scheme in {"http", "https"} and parts.hostname
        if not plain or parts.query or parts.fragment:
            raise ValueError("write an address such as https://gateway.example/anthropic, without ? and #")
        return value.rstrip("/") if value else None

    @field_validator("redis_url")
    @classmethod
    def _is_a_redis(cls, value: str | None) -> str | None:
        if not value or not value.strip():
            return None
        if not is_redis_address(value.strip()):
            raise ValueError(
                "write redis://HOST:6379/0, rediss:// for TLS, or unix:///PATH; in a name or password write other "
                "characters than letters and digits as %XX"
            )
        return value.strip()

    @field_validator("anthropic_api_key")
    @classmethod
    def _blank_is_none(cls, value: str | None) -> str | None:
        return value.strip() or None if value else None

    @field_validator("prices", mode="before")
    @classmethod
    def _read_prices(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value, object_pairs_hook=_each_once) if value.strip() else {}
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f'write JSON, as in {{"claude-sonnet-5-5": 3.0}}: {error}') from error

    @field_validator("prices", mode="after")
    @classmethod
    def _one_price_each(cls, value: dict[str, float]) -> dict[str, float]:
        if value:
            priced(value, DEFAULT_CURRENCY, load_models())
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _knows_the_environment(cls, values: Any) -> Any:
        own = (name for name, field in cls.model_fields.items() if field.validation_alias is None)
        known = {f"STRATA_{name.upper()}" for name in own} | OTHER_VARIABLES
        unknown = sorted(name for name in os.environ if name.startswith("STRATA_") and name not in known)
        if unknown:
            close = get_close_matches(unknown[0], sorted(known), n=1)
            raise ValueError(f"there is no setting {unknown[0]}{f': did you mean {close[0]}?' if close else ''}")
        return values

    @model_validator(mode="after")
    def _is_safe(self) -> Settings:
        if self.host not in LOOPBACK and not self.asks_for_keys:
            raise ValueError(
                f"host {self.host} is reachable from other machines: set STRATA_API_KEYS or STRATA_KEYS_FILE, or keep "
                "to 127.0.0.1"
            )
        return self

    @property
    def asks_for_keys(self) -> bool:
        return bool(self.api_keys) or self.keys_file is not None

    @property
    def platform(self) -> Platform:
        """The server's platform in the contract's words."""
        return _PLATFORMS.get(sys.platform, "linux")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = os.environ.get(CONFIG)
        written = (InitSettingsSource(settings_cls, _written_in(file)),) if file else ()
        return (init_settings, env_settings, *written)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is written twice")
    return found


def _written_in(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigFileError(f"{CONFIG} names {file}, which cannot be read: {error}") from error
