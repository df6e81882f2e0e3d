"""turn-kernel.md 15, rows 1, 2, 8: which stages an entry point runs, and what adapters may give."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from openab_kernel.facts.admission import Admission, Dispatch, Drop, Handled, ObserveOnly
from openab_kernel.facts.event import ChannelEventClass, PreflightFacts
from openab_kernel.facts.turn import DeliveryCounts, DispatchResult
from openab_kernel.interfaces.channel import AssembledTurn, PreparedTurn, RecordOptions, RunDispatchLifecycle
from openab_kernel.stages.assemble import ContextFacts, build_context
from openab_kernel.testing.channel import FakeChannel, FakeTurnAdapter, event
from openab_kernel.testing.harness import Harness, running_kernel

ALL_STAGES = [
    f"{stage}:{name}"
    for stage in ("ingest", "classify", "preflight", "resolve", "authorize", "triage", "assemble", "record", "dispatch")
    for name in ("start", "done")
]
DELIVERED = ["deliver:start", "deliver:done", "finalize:start", "finalize:done"]
READY_TURN = ["record:start", "record:done", "dispatch:start", "dispatch:done"]


class RecordingDelivery:
    """A delivery adapter of a channel that sends by itself."""

    def __init__(self) -> None:
        self.payloads: list[tuple[str, str]] = []

    async def deliver(self, payload: str, info: dict[str, Any]) -> dict[str, Any]:
        self.payloads.append((info["kind"], payload))
        return {"visible_reply_sent": True}


def ready_context(text: str = "hi", message_id: str = "m1") -> Any:
    found = FakeTurnAdapter().ingest(event(text, id=message_id))
    assert found is not None
    plan = FakeTurnAdapter().resolve_turn(found, ChannelEventClass(), PreflightFacts())
    route = plan.route.model_copy(update={"route_session_key": "agent:main:fake:given"})
    return build_context(
        ContextFacts(
            channel="fake",
            account_id="a1",
            message_id=message_id,
            from_="u1",
            conversation=plan.conversation,
            sender=plan.sender,
            route=route,
            reply=plan.reply,
            message=plan.message,
        )
    )


def assembled(delivery: Any, admission: Admission | None = None, **fields: Any) -> AssembledTurn:
    return AssembledTurn(
        channel="fake",
        account_id="a1",
        route_session_key="agent:main:fake:given",
        ctx_payload=ready_context(),
        delivery=delivery,
        admission=admission,
        **fields,
    )


def prepared(run_dispatch: Any, admission: Admission | None = None, **fields: Any) -> PreparedTurn:
    return PreparedTurn(
        channel="fake",
        account_id="a1",
        route_session_key="agent:main:fake:given",
        ctx_payload=ready_context(),
        run_dispatch=run_dispatch,
        admission=admission,
        **fields,
    )


async def way(kernel: Harness) -> list[str]:
    await kernel.watcher.wait_for_turns(1)
    await kernel.watcher.wait_for_event("finalize", "done")
    return kernel.watcher.way()


async def test_run_takes_a_raw_event_through_all_eleven_stages() -> None:
    """turn-kernel 15.1"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.run(event("hello"))
            assert await way(kernel) == [*ALL_STAGES, *DELIVERED]
            assert result.dispatched
            assert result.dispatch_result is not None
            assert result.dispatch_result.is_visible
            assert kernel.outbound.texts == ["echo: hello"]


async def test_run_assembled_runs_record_and_what_follows_and_sends_by_the_channels_own_delivery() -> None:
    """turn-kernel 15.1"""
    delivery = RecordingDelivery()
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run_assembled(assembled(delivery))
            assert await way(kernel) == [*READY_TURN, *DELIVERED]
            assert result.dispatched
            assert delivery.payloads == [("final", "echo: hi")]
            assert kernel.outbound.texts == []


async def test_run_prepared_awaits_the_channels_dispatch_once_and_books_its_counts() -> None:
    """turn-kernel 15.1"""
    calls: list[str] = []

    async def run_dispatch() -> DispatchResult:
        calls.append("dispatch")
        return DispatchResult(queued_final=True, counts=DeliveryCounts(final=2))

    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run_prepared(prepared(run_dispatch))
            assert await way(kernel) == [*READY_TURN, *DELIVERED]
            delivered = await kernel.watcher.wait_for_event("deliver", "done")
            assert delivered.owner == "channel"
            assert delivered.counts == {"tool": 0, "block": 0, "final": 2}
            assert calls == ["dispatch"]
            assert result.dispatch_result == DispatchResult(queued_final=True, counts=DeliveryCounts(final=2))
            assert kernel.agent.prompts == []


async def test_run_resolved_warns_at_the_callers_line_and_leaves_classify_and_preflight_out() -> None:
    """turn-kernel 15.1"""
    adapter = FakeTurnAdapter()
    raw = event("hello")
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            with pytest.warns(DeprecationWarning, match="use run") as seen:
                result = await kernel.kernel.turn.run_resolved(
                    "fake", raw, adapter.ingest, adapter.resolve_turn, account_id="a1"
                )
            assert seen[0].filename == __file__
            left_out = {"classify:start", "classify:done", "preflight:start", "preflight:done"}
            assert await way(kernel) == [step for step in [*ALL_STAGES, *DELIVERED] if step not in left_out]
            assert result.dispatched
            assert adapter.results == []


async def test_dispatch_assembled_warns_and_does_the_same_as_run_assembled() -> None:
    """turn-kernel 15.1"""
    delivery = RecordingDelivery()
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            with pytest.warns(DeprecationWarning, match="use run_assembled") as seen:
                await kernel.kernel.turn.dispatch_assembled(assembled(delivery))
            assert seen[0].filename == __file__
            assert await way(kernel) == [*READY_TURN, *DELIVERED]
            assert delivery.payloads == [("final", "echo: hi")]


async def test_a_channel_that_is_not_registered_is_named() -> None:
    """turn-kernel 15.1"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            with pytest.raises(Exception, match="channel nowhere/None: not registered; there is fake/a1"):
                await kernel.kernel.turn.run("nowhere", event())


class Adapter(FakeTurnAdapter):
    """Overrides what a case says."""

    def __init__(self, *, is_async: bool, **answers: Any) -> None:
        super().__init__()
        for name, answer in answers.items():
            setattr(self, name, self._method(answer, is_async))

    @staticmethod
    def _method(answer: Any, is_async: bool) -> Any:
        async def give(*args: Any) -> Any:
            return answer

        return give if is_async else lambda *args: answer


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("answers", "kind", "reason"),
    [
        ({"ingest": None}, "drop", "ingest-null"),
        ({"classify": None}, "dispatch", None),
        ({"classify": ChannelEventClass(kind="reaction", can_start_agent_turn=False)}, "handled", "event:reaction"),
        ({"preflight": None}, "dispatch", None),
        ({"preflight": Drop(reason="mine")}, "drop", "mine"),
        ({"preflight": {"kind": "observe_only", "reason": "look"}}, "observeOnly", "look"),
        ({"preflight": PreflightFacts(admission=Handled(reason="done here"))}, "handled", "done here"),
        ({"preflight": PreflightFacts()}, "dispatch", None),
        ({"resolve_turn": Drop(reason="no route")}, "drop", "no route"),
        ({"resolve_turn": Handled(reason="a menu")}, "handled", "a menu"),
    ],
)
async def test_adapters_may_answer_in_each_of_these_shapes(
    is_async: bool, answers: dict[str, Any], kind: str, reason: str | None
) -> None:
    """turn-kernel 15.2"""
    channel = FakeChannel(turn_adapter=Adapter(is_async=is_async, **answers))
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            result = await kernel.run(event())
            assert (result.admission.kind, result.admission.reason) == (kind, reason)
            assert len(channel.turn_adapter.results) == 1


@pytest.mark.parametrize("shape", ["plan", "assembled", "prepared", "list of one"])
async def test_resolve_may_give_each_shape_of_turn(shape: str) -> None:
    """turn-kernel 15.2"""
    delivery = RecordingDelivery()

    async def run_dispatch() -> DispatchResult:
        return DispatchResult(queued_final=True)

    class Resolving(FakeTurnAdapter):
        def resolve_turn(self, *args: Any) -> Any:
            match shape:
                case "assembled":
                    return assembled(delivery)
                case "prepared":
                    return prepared(run_dispatch)
                case "list of one":
                    return [super().resolve_turn(*args)]
                case _:
                    return super().resolve_turn(*args)

    channel = FakeChannel(turn_adapter=Resolving())
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            result = await kernel.run(event("hi"))
            assert result.dispatched
            assert result.dispatch_result is not None
            assert result.dispatch_result.is_visible
            assert delivery.payloads == ([("final", "echo: hi")] if shape == "assembled" else [])


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ({"ingest": 5}, TypeError, "ingest: gave int"),
        ({"classify": "message"}, TypeError, "classify: gave str"),
        ({"preflight": 5}, TypeError, "preflight: gave int"),
        ({"resolve_turn": None}, TypeError, "resolve_turn: gave NoneType"),
        ({"resolve_turn": Dispatch()}, ValueError, "put it on the plan"),
        ({"resolve_turn": []}, ValueError, "takes one"),
    ],
)
async def test_an_answer_of_another_shape_is_refused_by_name(
    answers: dict[str, Any], error: type[Exception], message: str
) -> None:
    """turn-kernel 15.2"""
    channel = FakeChannel(turn_adapter=Adapter(is_async=False, **answers))
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            with pytest.raises(error, match=message):
                await kernel.run(event())


# -- row 8: ready turns under each admission


@pytest.mark.parametrize(
    "admission", [None, Dispatch(), ObserveOnly(reason="quiet"), Drop(reason="no"), Handled(reason="x")]
)
async def test_run_assembled_follows_the_admission_that_the_turn_carries(admission: Admission | None) -> None:
    """turn-kernel 15.8"""
    delivery = RecordingDelivery()
    ended: list[str] = []
    turn = assembled(delivery, admission, on_finalize=lambda result: ended.append(result.admission.kind))
    kind = admission.kind if admission else "dispatch"
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run_assembled(turn)
            assert result.admission.kind == kind
            assert result.dispatched == (kind in ("dispatch", "observeOnly"))
            assert len(kernel.agent.prompts) == (kind in ("dispatch", "observeOnly"))
            assert len(delivery.payloads) == (kind == "dispatch")
            assert ended == [kind]


@pytest.mark.parametrize("admission", [None, Dispatch(), ObserveOnly(reason="quiet"), Drop(reason="no")])
async def test_run_prepared_follows_the_admission_that_the_turn_carries(admission: Admission | None) -> None:
    """turn-kernel 15.8"""
    calls: list[str] = []

    async def run_dispatch() -> DispatchResult:
        calls.append("dispatched")
        return DispatchResult(queued_final=True)

    lifecycle = RunDispatchLifecycle(on_dispatch_skipped=lambda reason: calls.append(f"skipped {reason}"))
    observed = DispatchResult(observed_reply_delivery=True)
    turn = prepared(run_dispatch, admission, run_dispatch_lifecycle=lifecycle, observe_only_dispatch_result=observed)
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run_prepared(turn)
            match admission:
                case ObserveOnly():
                    assert calls == ["skipped observeOnly"]
                    assert (result.dispatched, result.dispatch_result) == (True, observed)
                case Drop():
                    assert calls == ["skipped no"]
                    assert not result.dispatched
                case _:
                    assert calls == ["dispatched"]
                    assert result.dispatched


async def test_an_observed_prepared_turn_without_a_result_of_its_own_has_zero_counts() -> None:
    """turn-kernel 15.8"""

    async def run_dispatch() -> DispatchResult:
        raise AssertionError("an observed turn is not dispatched")

    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run_prepared(prepared(run_dispatch, ObserveOnly(reason="quiet")))
            assert result.dispatched
            assert result.dispatch_result == DispatchResult()


async def test_a_lifecycle_object_of_somebody_else_is_refused_before_dispatch() -> None:
    """turn-kernel 15.8"""
    from openab_kernel.errors import LifecycleMismatchError

    calls: list[str] = []

    async def run_dispatch() -> DispatchResult:
        calls.append("dispatched")
        return DispatchResult()

    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            own = kernel.kernel.pipeline.adoption_lifecycle
            foreign = prepared(
                run_dispatch, run_dispatch_lifecycle=RunDispatchLifecycle(turn_adoption_lifecycle=object())
            )
            with pytest.raises(LifecycleMismatchError):
                await kernel.kernel.turn.run_prepared(foreign)
            assert calls == []
            declared = prepared(run_dispatch, run_dispatch_lifecycle=RunDispatchLifecycle(turn_adoption_lifecycle=own))
            await kernel.kernel.turn.run_prepared(declared)
            assert calls == ["dispatched"]


@pytest.mark.parametrize("key", ["", " padded", "padded "])
async def test_a_record_session_key_that_is_blank_or_padded_is_refused(key: str) -> None:
    """turn-kernel 15.8"""
    turn = assembled(RecordingDelivery(), record=RecordOptions(session_key=key))
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            with pytest.raises(ValueError, match=r"record\.session_key"):
                await kernel.kernel.turn.run_assembled(turn)
            assert kernel.agent.prompts == []


async def test_what_a_ready_turn_wants_after_the_record_is_done_and_its_error_is_a_warning() -> None:
    """turn-kernel 15.8"""

    async def after_record() -> None:
        raise RuntimeError("broken")

    turn = assembled(RecordingDelivery(), record=RecordOptions(after_record=after_record))
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run_assembled(turn)
            assert result.dispatched
            assert (await kernel.watcher.wait_for_event("record", "warning")).reason == "after_record"
