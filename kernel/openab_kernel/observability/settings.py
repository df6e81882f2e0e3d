"""`[log]`, `[metrics]` and `[http]`: what operators see of a running kernel."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

LISTEN = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")


class LogSettings(BaseModel):
    """How much is logged, and in which form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="the least that is logged")
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: text on a terminal, else JSON lines"
    )

    @field_validator("level", "format", mode="before")
    @classmethod
    def _fold(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value


class MetricsSettings(BaseModel):
    """`/metrics` for Prometheus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=False, description="serve /metrics")


class HttpSettings(BaseModel):
    """The one HTTP listener."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: str = Field(default="127.0.0.1:8710", description="host:port; an IPv6 address in brackets")
    token: SecretStr | None = Field(default=None, description="what the console asks for")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        match = LISTEN.fullmatch(value)
        if match is None or int(match["port"]) > 65_535:
            raise ValueError('host:port, such as "127.0.0.1:8710"')
        return value

    @property
    def address(self) -> tuple[str, int]:
        """Host, without brackets, and port; port 0 lets the system choose."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)
