"""`kit`: every mode of delivery, played on this machine without a key, an account or a network."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from openab_kernel.cli.options import lines_for_terminal

if TYPE_CHECKING:
    from openab_kernel.kit.gateway import Delivered
    from openab_kernel.kit.scenarios import Scenario

DEFAULT_PORT = 8765
"""That of the files in examples/offline."""

port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Where the gateway listens; 0: any port that is free.",
)


class Scenarios(click.Group):
    """A group that has a command for each scenario too; `kit` alone lists these, not the help."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from openab_kernel.kit.scenarios import SCENARIOS

        scenario = SCENARIOS.get(cmd_name)
        return super().get_command(ctx, cmd_name) if scenario is None else _command(scenario)


@click.group(cls=Scenarios, invoke_without_command=True, subcommand_metavar="[SCENARIO | all | gateway]")
@click.pass_context
def kit(context: click.Context) -> None:
    """See every mode of delivery at work: no key, no account, no network. Without a SCENARIO: list them."""
    if context.invoked_subcommand is not None:
        return
    from openab_kernel.kit.scenarios import SCENARIOS

    for scenario in SCENARIOS.values():
        click.echo(f"{scenario.name:<12} {scenario.line}")
    click.echo("\nopenab-kernel kit SCENARIO plays one, openab-kernel kit all plays them one after the other.")


def _command(scenario: Scenario) -> click.Command:
    @click.command(scenario.name, help=f"Play {scenario.name}: {scenario.line}.")
    @click.option("--gateway-only", is_flag=True, help="Be the gateway alone, on --port, for a kernel that you start.")
    @port_option
    def play_one(gateway_only: bool, port: int) -> None:
        if gateway_only:
            _stay(port)
        else:
            _play([scenario])

    return play_one


@kit.command("all")
def play_all() -> None:
    """Play every scenario, one after the other. Status 1 if one does not end as it should."""
    from openab_kernel.kit.scenarios import SCENARIOS

    _play(list(SCENARIOS.values()))


@kit.command("gateway")
@port_option
def stay(port: int) -> None:
    """Be a gateway with one person behind it, who writes one message to each kernel that connects."""
    _stay(port)


@kit.command("agent", hidden=True)
@click.argument("name", metavar="SCENARIO")
def agent(name: str) -> None:
    """Be the agent of a scenario, on standard input and output: what `[agent] command` names."""
    from openab_kernel.kit import agent
    from openab_kernel.kit.scenarios import SCENARIOS

    if name not in SCENARIOS:
        raise click.BadParameter(f"no such scenario; known are {', '.join(SCENARIOS)}")
    agent.run(SCENARIOS[name])


def _play(scenarios: list[Scenario]) -> None:
    from openab_kernel.kit.run import play

    results: list[bool] = []

    async def play_them() -> None:
        for scenario in scenarios:
            click.echo(f"{scenario.name}: {scenario.line}")
            played = await play(scenario, tell)
            results.append(played.is_as_written(scenario))
            wanted = f"but should have been {scenario.outcome} with the messages {list(scenario.texts)}"
            click.echo(f"the turn ended: {played.outcome}, {'as it should' if results[-1] else wanted}\n")

    signal_number = _run(play_them)
    if signal_number is not None:
        sys.exit(128 + signal_number)
    if len(scenarios) > 1:
        click.echo(f"{sum(results)} of {len(scenarios)} as they should")
    if not all(results):
        sys.exit(1)


def tell(message: Delivered) -> None:
    """Print one message; further lines of it stand below the first."""
    head = f"+{message.gap_seconds:.2f} s  message {message.number} of the turn | "
    click.echo(head + ("\n" + "| ".rjust(len(head))).join(lines_for_terminal(message.text)))


def _stay(port: int) -> None:
    """Serve on this port until a signal says that it is enough."""
    import anyio

    from openab_kernel.clock import SystemClock
    from openab_kernel.kit.gateway import Gateway
    from openab_kernel.kit.scenarios import QUESTION

    def greet() -> None:
        click.echo(f"a kernel has connected; it is asked: {QUESTION}")

    gateway = Gateway(SystemClock(), QUESTION, on_delivery=tell, on_arrival=greet)

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            url = await group.start(gateway.run, port)
            click.echo(f"the gateway listens on {url}; Ctrl-C ends it")

    _run(serve)


def _run(work: Callable[[], Awaitable[None]]) -> int | None:
    """Run to the end, or until a signal asks to stop; then its number. A failure of the kit ends all with status 1."""
    import anyio

    from openab_kernel.kit import KitFailed
    from openab_kernel.kit.run import until_signalled

    try:
        return anyio.run(until_signalled, work)
    except BaseExceptionGroup as group:
        from openab_kernel.cli.serve import innermost

        error = innermost(group)
        if not isinstance(error, KitFailed):
            raise error from group
    for line in error.log_lines:
        click.echo(line, err=True)
    click.echo(f"error: {error}", err=True)
    sys.exit(1)
