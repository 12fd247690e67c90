"""Settings: ``STRATA_…`` variables, or a TOML file named by ``STRATA_CONFIG``; what the command line says wins."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from app.core.facts import Platform

_PLATFORMS: dict[str, Platform] = {"darwin": "macos", "win32": "windows"}
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def _default_roots() -> tuple[Path, ...]:
    return (Path.home(), Path(tempfile.gettempdir()))


class Settings(BaseSettings):
    """Frozen, read once, by `main`. Sizes are in bytes, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="STRATA_", frozen=True, extra="forbid", enable_decoding=False)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    workers: Annotated[int, Field(ge=1)] = 1
    roots: Annotated[tuple[Path, ...], NoDecode] = Field(default_factory=_default_roots)
    home: Path | None = Field(default_factory=Path.home)
    api_keys: Annotated[tuple[str, ...], NoDecode] = ()
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    max_body_bytes: Annotated[int, Field(ge=1)] = 32 * 1024 * 1024
    max_file_bytes: Annotated[int, Field(ge=1)] = 1024 * 1024
    max_sessions: Annotated[int, Field(ge=1)] = 10_000
    session_idle_seconds: Annotated[float, Field(gt=0)] = 12 * 3600
    git_timeout_seconds: Annotated[float, Field(gt=0)] = 5
    max_context_tokens: Annotated[int, Field(ge=1)] | None = None
    log_level: str = "info"

    @field_validator("roots", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return [path for path in value.split(os.pathsep) if path] if isinstance(value, str) else value

    @field_validator("api_keys", "allowed_hosts", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_safe(self) -> Settings:
        if self.host not in LOOPBACK and not self.api_keys:
            raise ValueError(
                f"host {self.host} is reachable from other machines: set STRATA_API_KEYS, or keep to 127.0.0.1"
            )
        return self

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
        file = os.environ.get("STRATA_CONFIG")
        toml = (TomlConfigSettingsSource(settings_cls, Path(file)),) if file else ()
        return (init_settings, env_settings, *toml)
