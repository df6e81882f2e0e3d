"""`[gateway]`: the connection to a gateway that serves one or more platforms."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import ConfigDict, Field, SecretStr, WithJsonSchema, field_validator

from openab_kernel import ChannelSection
from openab_kernel.facts.policy import AllowBots


class GatewaySettings(ChannelSection):
    """What an operator may write in `[gateway]`."""

    model_config = ConfigDict(hide_input_in_errors=True)  # the input may be the token

    url: str = Field(description="the gateway's WebSocket, ws:// or wss://")
    platform: str = Field(default="telegram", pattern=r"^\S+$", description="the platform behind it")
    token: SecretStr | None = Field(default=None, description="shared secret of gateway and kernel")
    bot_username: str | None = Field(
        default=None, description="in groups, only messages that mention this name are answered"
    )
    allow_bot_messages: Annotated[AllowBots, WithJsonSchema({"type": "boolean"})] = Field(
        default="off", description="are bots heard?", json_schema_extra={"default": False}
    )
    streaming: bool = Field(default=False, description="show an answer while it grows, where the platform can edit")
    streaming_placeholder: bool = Field(default=True, description="open a growing answer with a placeholder")
    telegram_rich_messages: bool = Field(default=True, description="the gateway draws tables itself")
    gateway_ack_timeout_secs: float = Field(
        default=12, gt=0, le=600, description="how long a promised answer is waited for"
    )
    hello: Literal["auto", "always", "never"] = Field(
        default="auto", description="introduce the kernel to the gateway; auto: in bubble modes"
    )
    token_query: bool = Field(default=True, description="send the token in the URL as well, for old gateways")

    @field_validator("url", "gateway_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        try:
            parts = urlsplit(value or "")
            is_address = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number, half an IPv6 address
            is_address = False
        if not is_address:
            raise ValueError("an address such as ws://host:8080/ws or wss://host/ws")
        return value

    @field_validator("token")
    @classmethod
    def _check_token(cls, value: SecretStr | None) -> SecretStr | None:
        """White space around it comes from files and variables; a blank token is none."""
        token = value.get_secret_value().strip() if value else ""
        if not token.isprintable():
            raise ValueError("one line of printable text")
        return SecretStr(token) if token else None

    @field_validator("bot_username")
    @classmethod
    def _check_bot_username(cls, value: str | None) -> str | None:
        return (value or "").strip().removeprefix("@") or None

    @field_validator("allow_bot_messages", mode="before")
    @classmethod
    def _read_allow_bots(cls, value: Any) -> Any:
        if not isinstance(value, bool):
            raise ValueError("true or false")
        return "all" if value else "off"

    def address(self) -> str:
        """The URL to connect to. It may hold the token: not for eyes or logs."""
        url = self.gateway_url or self.url
        if self.token is None or not self.token_query:
            return url
        url, _, _ = url.partition("#")
        return f"{url}{'&' if '?' in url else '?'}token={quote(self.token.get_secret_value(), safe='')}"

    def shown_address(self) -> str:
        """The URL without query and user, for people and logs."""
        parts = urlsplit(self.gateway_url or self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token.get_secret_value()}"}
