"""The scenarios, the files in examples/offline and the page about them say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from openab_kernel.cli.kit import DEFAULT_PORT
from openab_kernel.delivery.envelope import Bubble, EnvelopeRules, find_envelopes
from openab_kernel.kit.run import child_configuration, configuration, to_toml
from openab_kernel.kit.scenarios import SCENARIOS, Say, Scenario, envelope
from tests.docs.pages import DOCS, code_blocks, generator

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/offline"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_example_is_the_configuration_that_the_kit_plays(scenario: Scenario) -> None:
    written = configuration(
        scenario,
        f"ws://127.0.0.1:{DEFAULT_PORT}/ws",
        ["openab-kernel", "kit", "agent", scenario.name],
        store_url="sqlite:///~/.openab-kernel/offline.db",
    )
    text = (EXAMPLES / f"{scenario.name}.toml").read_text("utf-8")
    assert tomllib.loads(text) == written
    assert f"openab-kernel kit {scenario.name} --gateway-only\n" in text
    assert f"openab-kernel serve -c examples/offline/{scenario.name}.toml\n" in text


def test_every_example_belongs_to_a_scenario() -> None:
    assert {path.stem for path in EXAMPLES.iterdir()} == SCENARIOS.keys()


def test_lines_that_an_example_leaves_to_try_are_keys_of_the_configuration() -> None:
    known = generator().sections()["delivery"].model_fields
    tried = [key for path in EXAMPLES.iterdir() for key in re.findall(r"(?m)^# (\w+) = ", path.read_text("utf-8"))]
    assert tried
    assert set(tried) <= set(known)


def test_written_configuration_reads_as_it_was_meant() -> None:
    sections = {"a": {"text": 'a "b"\n\\ é', "number": 3, "list": ["x", "y"]}, "b": {}}
    assert tomllib.loads(to_toml(sections)) == sections


def test_configuration_of_the_child_is_its_own_folders(tmp_path: Path) -> None:
    read = tomllib.loads(child_configuration(SCENARIOS["text"], "ws://127.0.0.1:1/ws", str(tmp_path)))
    assert read["agent"]["working_dir"] == str(tmp_path)
    assert read["agent"]["args"][-3:] == ["kit", "agent", "text"]
    assert read["store"]["url"] == "sqlite:///state.db"
    assert read["log"]["format"] == "json"


def test_envelope_is_one_that_the_kernel_accepts() -> None:
    text = envelope("a", "b\nc")
    (found,) = find_envelopes(text, text, EnvelopeRules()).envelopes
    assert found.bubbles == (Bubble("bubble_1", "a"), Bubble("bubble_2", "b\nc"))


def test_broken_envelope_breaks_off_inside_a_bubble() -> None:
    (step,) = SCENARIOS["broken"].steps
    assert isinstance(step, Say)
    assert re.search(r'"text":"[^"]+\Z', step.text)


def test_bubble_that_is_too_long_is_so_by_one_character() -> None:
    (step,) = SCENARIOS["toolong"].steps
    assert isinstance(step, Say)
    limit = generator().sections()["delivery"].model_fields["max_bubble_chars"].default
    assert len(step.text) - len(envelope("")) == limit + 1


def test_page_shows_scenarios_as_they_are_played() -> None:
    shown = [block.splitlines() for block in code_blocks(DOCS / "offline-kit.md", "text")]
    assert len(shown) == 3
    for first, *messages, last in shown:
        scenario = SCENARIOS[first.partition(":")[0]]
        assert first == f"{scenario.name}: {scenario.line}"
        assert [line.partition(" | ")[2] for line in messages] == list(scenario.texts)
        assert last == f"the turn ended: {scenario.outcome}, as it should"
