"""A scenario that is played, and a kernel that does not do its part."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from openab_kernel.clock import SystemClock
from openab_kernel.kit import KitFailed, run
from openab_kernel.kit.gateway import Delivered, Gateway
from openab_kernel.kit.run import Played, child_configuration, play, serving, until_signalled
from openab_kernel.kit.scenarios import SCENARIOS

WAIT_SECONDS = 60


async def test_scenario_is_played_on_a_real_kernel() -> None:
    told: list[Delivered] = []
    with anyio.fail_after(WAIT_SECONDS):
        played = await play(SCENARIOS["text"], told.append)
    assert played == Played(SCENARIOS["text"].texts, "done")
    assert [(message.number, message.text) for message in told] == [(1, SCENARIOS["text"].texts[0])]
    assert played.is_as_written(SCENARIOS["text"])


def test_other_messages_or_another_end_are_not_as_written() -> None:
    scenario = SCENARIOS["seqhalf"]
    assert Played(scenario.texts, "failed").is_as_written(scenario)
    assert not Played(scenario.texts[:2], "failed").is_as_written(scenario)
    assert not Played(scenario.texts, "done").is_as_written(scenario)


async def test_kernel_that_refuses_its_configuration_is_told_with_its_last_words(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[gatewya]\n")
    with pytest.raises(KitFailed, match="ended with status 2 before it logged") as failure:
        async with serving(config, SystemClock()) as kernel:
            await kernel.wait_for("kernel.ready", WAIT_SECONDS)
    assert [line for line in failure.value.log_lines if line.startswith("error: [gatewya]: ")]


def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Put this program in the place of the kernel."""
    path = tmp_path / "kernel.py"
    path.write_text(code)
    monkeypatch.setattr(run, "OPENAB_KERNEL", (sys.executable, "-I", str(path)))


async def test_kernel_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, monkeypatch, "import sys, signal; print('early', file=sys.stderr, flush=True); signal.pause()")
    with pytest.raises(KitFailed, match=r"the kernel did not log kernel.ready within 0.5 s"):
        async with serving(tmp_path, SystemClock()) as kernel:
            await kernel.wait_for("kernel.ready", 0.5)


async def test_kernel_that_heeds_no_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, sys, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'print(\'{"event": "kernel.ready", "pid": %d}\' % os.getpid(), file=sys.stderr, flush=True)\n'
        "while True: signal.pause()\n"
    )
    script(tmp_path, monkeypatch, code)
    monkeypatch.setattr(run, "STOP_SECONDS", 0.1)
    async with serving(tmp_path, SystemClock()) as kernel:
        pid = (await kernel.wait_for("kernel.ready", WAIT_SECONDS))["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_kernel_in_a_turn_and_its_agent_are_ended_when_the_play_is_cut(tmp_path: Path) -> None:
    gateway = Gateway(SystemClock(), "hello?", on_delivery=lambda message: None)
    config = tmp_path / "config.toml"
    with anyio.fail_after(WAIT_SECONDS):
        async with anyio.create_task_group() as group:
            url = await group.start(gateway.run)
            config.write_text(child_configuration(SCENARIOS["seqslow"], url, str(tmp_path)))
            async with serving(config, SystemClock()) as kernel:
                agent_pid = (await kernel.wait_for("agent.spawned", WAIT_SECONDS))["agent_pid"]
                group.cancel_scope.cancel()
                await anyio.sleep_forever()
    with pytest.raises(ProcessLookupError):
        os.kill(agent_pid, 0)


async def test_lines_that_are_no_events_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = r"Traceback\n\n[1]\n{\"event\": \"a.b\"}\n{\"event\": \"kernel.ready\"}\n"
    script(tmp_path, monkeypatch, f'import sys; sys.stderr.write("{lines}"); sys.stderr.flush()')
    async with serving(tmp_path, SystemClock()) as kernel:
        assert await kernel.wait_for("kernel.ready", WAIT_SECONDS) == {"event": "kernel.ready"}


async def test_work_is_done_or_cut_off_by_a_signal() -> None:
    async def end() -> None:
        await anyio.lowlevel.checkpoint()

    async def be_stopped() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()

    with anyio.fail_after(5):
        assert await until_signalled(end) is None
        assert await until_signalled(be_stopped) == signal.SIGINT
