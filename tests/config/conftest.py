"""Loads texts as configuration files, with the sections of the gateway plugin beside the kernel's own."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.config import Config, load
from openab_kernel.errors import ConfigError

SECTIONS = {"gateway": GatewaySettings}

Load = Callable[..., Config]
FindProblems = Callable[..., list[str]]


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    def load_it(text: str, environ: Mapping[str, str] | None = None) -> Config:
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return load(path, environ or {}, SECTIONS)

    return load_it


@pytest.fixture
def problems_of(load_text: Load) -> FindProblems:
    """Gives the lines that are printed; none if the text is a configuration."""

    def find(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        try:
            load_text(text, environ)
        except ConfigError as error:
            return [str(problem) for problem in error.problems]
        return []

    return find
