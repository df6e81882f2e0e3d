"""What the tests of the gateway channel share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from openab_gateway_ws.channel import GatewayChannel
from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.testing.clock import ManualClock
from tests.plugins.gateway_ws.fake_gateway import FakeGateway
from tests.plugins.gateway_ws.fake_kernel import MakeChannel


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as gateway:
        yield gateway


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def make_channel(gateway: FakeGateway, clock: ManualClock) -> MakeChannel:
    """A channel that connects to the fake gateway; keywords are settings, but for `mode`."""

    def make(mode: str = "text", **settings: object) -> GatewayChannel:
        section = GatewaySettings.model_validate({"url": gateway.url, "allow_all_users": True} | settings)
        return GatewayChannel(section, clock=clock, mode=mode, version="1.2.3")

    return make
