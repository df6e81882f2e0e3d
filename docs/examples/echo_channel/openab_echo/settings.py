"""`[echo]`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from openab_kernel import ChannelSection


class EchoSettings(ChannelSection):
    """The keys of every channel, and ours."""

    folder: Path = Field(description="holds `in` and `out`; absolute")
    poll_ms: int = Field(default=500, ge=1, description="the pause between two looks into `in`")
