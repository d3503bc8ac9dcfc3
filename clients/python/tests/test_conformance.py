"""Runs the scenarios of clients/conformance against the core: on a scripted clock, with a
scripted server."""

from __future__ import annotations

import heapq
import json
import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate_client import Decision, HeadgateError, KeyLimit, Limit, Policy
from headgate_client._core import Core
from headgate_client._ops import ErrorReply, Failure, Join, Send, SendAll, Sleep, Start, Steps
from headgate_client._values import MS, SECOND

FOLDER = Path(__file__).parents[2] / "conformance"


class Scripted:
    """The runtime: a clock that stands still, and the server's script."""

    def __init__(self) -> None:
        self.clock = 0
        self.timers: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.work: deque[Steps[None]] = deque()
        self.script: deque[dict[str, Any]] = deque()
        self.timeout = 0

    def now(self) -> int:
        return self.clock

    def random(self) -> float:
        return 0.5

    def later(self, delay: int, call: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.timers, (self.clock + delay, self.number, call))

    def background(self, steps: Steps[None]) -> None:
        self.work.append(steps)

    def until(self, at: int) -> None:
        """Lets time pass. Timers that are due run in order."""
        while self.timers and self.timers[0][0] <= at:
            due, _, call = heapq.heappop(self.timers)
            self.clock = max(self.clock, due)
            call()
            self.settle()
        self.clock = max(self.clock, at)

    def settle(self) -> None:
        while self.work:
            self.run(self.work.popleft())

    def reply(self, args: tuple[Any, ...]) -> Any:
        assert self.script, f"{args} is not expected"
        step = self.script.popleft()
        want = step["expect"]
        assert len(want) == len(args) and all(w in ("*", a) for w, a in zip(want, args, strict=True)), (
            f"{args} was sent, and {want} is expected"
        )
        if "error" in step:
            return ErrorReply(step["error"])
        if "fail" in step:
            if step["fail"] == "timeout":
                self.late = True
                return Failure("no reply in time", True)
            return Failure(step["fail"], step["fail"] != "refused")
        return step["reply"]

    def send(self, commands: list[tuple[Any, ...]], deadline: int) -> list[Any]:
        self.late = False
        results = [self.reply(args) for args in commands]
        if self.late:
            self.until(max(deadline, self.clock))
        return results

    def run(self, steps: Steps[Any]) -> Any:
        result: Any = None
        try:
            while True:
                op = steps.send(result)
                result = None
                if isinstance(op, Send):
                    result = self.send([op.args], op.deadline)[0]
                elif isinstance(op, SendAll):
                    result = self.send(op.commands, op.deadline)
                elif isinstance(op, Start):
                    self.run(op.steps)
                elif isinstance(op, Sleep):
                    self.until(self.clock + op.time)
                elif isinstance(op, Join):
                    assert op.waiter.done is not None
        except StopIteration as end:
            return end.value


def limit_of(spec: dict[str, Any]) -> Limit:
    more = {k: v for k, v in spec.items() if k in ("algorithm", "burst", "on_failure", "leased")}
    assert set(spec) <= {"units", "period_ms", *more}, spec
    return Limit(spec["units"], spec["period_ms"] / 1000, **more)


def policy_of(spec: Any) -> Policy:
    if isinstance(spec, str):
        return Policy(spec)
    return Policy(spec["name"], spec.get("on_failure", "local"), limit_of(spec["limit"]) if "limit" in spec else None)


class Scenario:
    def __init__(self, spec: dict[str, Any]) -> None:
        o = dict(spec.get("options", {}))
        self.runtime = Scripted()
        self.core = Core(
            self.runtime, timeout=o.pop("timeout_ms", 50) / 1000, processes=o.pop("processes", 0),
            leases=o.pop("leases", False), lease_ttl=o.pop("lease_ttl_ms", 2000) / 1000,
        )  # fmt: skip
        assert not o, f"options that the runner does not know: {o}"
        self.named: dict[str, Any] = {}
        for number, step in enumerate(spec["steps"]):
            self.step(step, f"step {number}")
        assert not self.runtime.script, f"at the end: not sent: {list(self.runtime.script)}"

    def step(self, step: dict[str, Any], name: str) -> None:
        r = self.runtime
        at = step.get("at_ms", 0) * MS
        r.until(at - 1)
        assert not r.script, f"before {name}: not sent: {list(r.script)}"
        r.script = deque(step.get("server", []))
        r.until(at)
        call = step.get("call")
        if call is not None:
            try:
                got = self.call(dict(call))
                failed: Exception | None = None
            except (HeadgateError, ValueError) as e:
                got, failed = None, e
            r.settle()
            assert (failed is not None) == step.get("want_error", False), f"{name}: {failed!r}"
            for field, value in step.get("want", {}).items():
                assert isinstance(got, Decision), name
                assert value_of(got, field, value) == value, f"{name}: {field} of {got}"
        if "state" in step:
            self.check_state(step["state"], name)

    def check_state(self, want: str, name: str) -> None:
        assert ("open" if self.core.open else "closed") == want, name

    def call(self, call: dict[str, Any]) -> Any:
        verb, core, run = call.pop("verb"), self.core, self.runtime.run
        if verb in ("allow", "peek", "refund", "wait"):
            args: dict[str, Any] = {"key": call.pop("key"), "limit": limit_of(call.pop("limit")), "cost": call.pop("cost", 1)}
            if "at_most_ms" in call:
                args["at_most"] = call.pop("at_most_ms") / 1000
            assert not call, call
            return run(getattr(core, verb)(**args))
        if verb == "all":
            parts = [KeyLimit(p["key"], limit_of(p["limit"]), p.get("cost", 1)) for p in call["limits"]]
            return run(core.all(parts))
        if verb == "check":
            return run(core.check(policy_of(call["policy"]), call.get("attributes"), call.get("cost", 1), call.get("id")))
        if verb == "reserve":
            ttl = call["ttl_ms"] / 1000 if "ttl_ms" in call else None
            d = run(core.reserve(policy_of(call["policy"]), call.get("attributes"), call.get("cost", 1), ttl))
            self.named[call["as"]] = d.hold
            return d
        if verb in ("commit", "cancel"):
            return run(core.settle(self.named[call["of"]], call.get("cost", 1) if verb == "commit" else None))
        if verb == "acquire":
            on_failure = call.get("on_failure", "local")
            d, id = run(core.acquire(call["key"], call["slots"], call["ttl_ms"] / 1000, call.get("cost", 1), on_failure))
            self.named[call["as"]] = call["key"], id
            return d
        if verb == "release":
            return run(core.release(*self.named[call["of"]]))
        if verb == "reset":
            return run(core.reset(call["key"]))
        if verb == "close":
            return core.close()
        raise AssertionError(f"the verb {verb} is not known")


def value_of(d: Any, field: str, want: Any) -> Any:
    if field == "limits":
        return {name: {f: value_of(s, f, None) for f in want[name]} for name, s in d.limits.items()}
    if field.endswith("_ms"):
        seconds = getattr(d, field.removesuffix("_ms"))
        return -1 if seconds < 0 else math.ceil(round(seconds * SECOND) / MS)
    return getattr(d, field)


def scenarios() -> list[Any]:
    out = []
    for file in sorted(FOLDER.glob("*.json")):
        out += [pytest.param(s, id=f"{file.stem}: {s['name']}") for s in json.loads(file.read_text())]
    return out


class Trace:
    """Calls that run beside each other, on a clock that goes from event to event."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.clock = self.number = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.ready: deque[Callable[[], None]] = deque()
        self.server = list(spec["server"])
        self.names: dict[str, str] = {}
        self.decisions: dict[int, list[Any]] = {}
        o = spec["options"]
        self.core = Core(
            self, timeout=o["timeout_ms"] / 1000, processes=0, leases=o["leases"], lease_ttl=o["lease_ttl_ms"] / 1000
        )
        limit = limit_of(spec["limit"])
        for i, (at, cost, *_) in enumerate(spec["calls"]):
            self.until(at * MS)
            self.start(self.call(i, limit, at, cost))
            self.settle()
        self.until(spec["close_ms"] * MS)
        self.core.close()
        self.settle()
        self.until(self.clock + 1000 * MS)
        for i, want in enumerate(spec["calls"]):
            assert self.decisions.get(i) == want, f"call {i}"
        assert not self.server, "not sent"

    def call(self, i: int, limit: Limit, at: int, cost: int) -> Steps[None]:
        d = yield from self.core.allow("k", limit, cost)
        retry = value_of(d, "retry_after_ms", 0)
        self.decisions[i] = [at, cost, self.clock // MS, d.allowed, d.source, d.remaining, retry]

    def now(self) -> int:
        return self.clock

    def random(self) -> float:
        return 0.5

    def later(self, delay: int, call: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.clock + delay, self.number, call))

    def background(self, steps: Steps[None]) -> None:
        self.ready.append(lambda: self.start(steps))

    def until(self, at: int) -> None:
        while self.events and self.events[0][0] <= at:
            self.clock, _, call = heapq.heappop(self.events)
            call()
            self.settle()
        self.clock = at

    def settle(self) -> None:
        while self.ready:
            self.ready.popleft()()

    def start(self, steps: Steps[None], result: Any = None) -> None:
        """Runs steps until they wait."""
        try:
            op = steps.send(result)
        except StopIteration:
            return
        if isinstance(op, Start):
            self.background(op.steps)
            self.start(steps)
        elif isinstance(op, Send):
            delay, reply = self.reply(op.args)
            late = op.deadline - self.clock
            if delay is None or delay * MS > late:
                delay, reply = late / MS, Failure("no reply in time", True)
            self.later(int(delay * MS), lambda: self.start(steps, reply))
        elif isinstance(op, SendAll):
            raise AssertionError("nothing is to be charged")
        elif isinstance(op, Sleep):
            self.later(op.time, lambda: self.start(steps))
        else:
            assert isinstance(op, Join)
            went = [False]

            def go() -> None:
                if not went[0]:
                    went[0] = True
                    self.start(steps)

            if self.core.attach(op.waiter, lambda: self.ready.append(go)):
                self.later(op.deadline - self.clock, go)
            else:
                go()

    def reply(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        at = self.clock // MS
        for i, (when, want, delay, reply) in enumerate(self.server):
            if when == at and self.fits(want, args):
                del self.server[i]
                if isinstance(reply, dict) and "error" in reply:
                    return delay, ErrorReply(reply["error"])
                return delay, reply
            if when > at:
                break
        raise AssertionError(f"at {at} ms {args} was sent; next is expected: {self.server[:2]}")

    def fits(self, want: list[str], args: tuple[Any, ...]) -> bool:
        if len(want) != len(args):
            return False
        for w, a in zip(want, args, strict=True):
            if w.startswith("*"):
                known = self.names.get(w)
                if known is None and a not in self.names.values():
                    self.names[w] = a
                elif known != a:
                    return False
            elif w != a:
                return False
        return True


@pytest.mark.parametrize("spec", scenarios())
def test_scenario(spec: dict[str, Any]) -> None:
    if "calls" in spec:
        Trace(spec)
    else:
        Scenario(spec)
