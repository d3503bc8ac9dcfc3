"""The decisions of a client, without I/O: breaker, failure policies, denials and verbs."""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, Union

from ._block import MEMORY, Entry, Loan, Waiter
from ._fallback import ADMISSION, MOST, REFUSAL, SHARE, Bucket, Buckets, Debt, Semaphores, counts_for
from ._leases import ALONE, Leases
from ._ops import Args, ErrorReply, Failure, Join, Runtime, Send, SendAll, Sleep, Start, Steps
from ._reply import ACQUIRE, WrongReply, check, decision, degraded, fields, integer, seconds, text
from ._values import (
    FAILURES,
    MOST_UNITS,
    MS,
    SECOND,
    ClosedError,
    Decision,
    Limit,
    OnFailure,
    Policy,
    ServerError,
    UnavailableError,
    duration,
    milliseconds,
)

log = logging.getLogger("headgate_client")

# Failures in a row that open the breaker.
FAILURES_TO_OPEN: Final = 5
# The times between the PINGs of an open breaker.
PROBES: Final = (SECOND // 2, SECOND, 2 * SECOND)
# Debts that are sent at one time.
BATCH: Final = 100
# Errors with the code ERR that are no mistake of the caller: another server has the port, or
# the server is full.
OTHERS: Final = ("ERR unknown command", "ERR max number of clients")
# The codes of the caller's mistakes.
MISTAKES: Final = frozenset(("ERR", "WRONGTYPE", "NOPOLICY", "IDCONFLICT", "NOHOLD"))

T = TypeVar("T")
Attributes = Mapping[str, Union[str, int, bool, None]]
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_OPTIONS: Final = frozenset(("cost", "id", "peek", "sync", "async", "fail", "force", "ttl"))


@dataclass(frozen=True)
class KeyLimit:
    """One limit of a call to ``all``."""

    key: str
    limit: Limit
    cost: int = 1


@dataclass(frozen=True)
class Stats:
    """Counts since the client began."""

    sent: int  # commands that went to the server
    local: int  # calls that were admitted from a lease
    denied: int  # calls that were denied without asking
    fallback: int  # calls that a failure policy answered
    failures: int  # commands that failed
    opened: int  # how often the breaker opened
    charged: int  # units that were charged afterwards
    leases: int  # keys that are leased now
    mistakes: int  # commands that the server answered with an error of the caller


class Denial:
    __slots__ = ("at", "cost", "decision", "limit", "until")

    def __init__(self, limit: Limit | None, d: Decision, cost: int, now: int) -> None:
        wait = int(d.retry_after * SECOND)
        self.limit, self.decision, self.cost, self.at = limit, d, cost, now
        self.until = now + (MEMORY if wait < 0 or wait > MEMORY else wait)


class Core:
    """What a client knows, and its verbs as operations. It is safe for threads."""

    def __init__(self, runtime: Runtime, *, timeout: float, processes: int, leases: bool, lease_ttl: float) -> None:
        self.timeout = milliseconds(timeout, "timeout") * MS
        if type(processes) is not int or processes < 0:
            raise ValueError(f"processes is {processes!r}: use their number, or 0 if it is not known")
        ttl = milliseconds(lease_ttl, "lease_ttl")
        if not 100 <= ttl <= 60_000:
            raise ValueError(f"lease_ttl is {lease_ttl!r}: use 0.1 to 60 seconds")
        self.runtime = runtime
        self.lock = threading.Lock()
        self.share = 1 / processes if processes else SHARE
        self.leases = Leases(self, ttl) if leases else None
        self.closed = False
        # The breaker.
        self.open = False
        self.failed = 0  # in a row
        self.probes = 0
        self.charging = False
        self.denials: OrderedDict[Hashable, Denial] = OrderedDict()
        self.buckets = Buckets()
        self.semaphores = Semaphores()
        self.debts: OrderedDict[Hashable, Debt] = OrderedDict()
        self.sent = self.locals = self.denied = self.fallbacks = self.failures = self.opened = self.charged = 0
        self.mistakes = 0
        self.told: int | None = None  # when the log was told of one

    # --- the breaker ---

    def judge(self, reply: Any, read: Callable[[Any], T]) -> T | Failure | ErrorReply:
        """Reads a reply, and tells the breaker whether the server answers."""
        if isinstance(reply, ErrorReply):
            if reply.code in MISTAKES and not reply.text.startswith(OTHERS):
                self.succeeded()
                return reply
            failure = Failure(reply.text, reply.code == "UNCERTAIN")
        elif isinstance(reply, Failure):
            failure = reply
        else:
            try:
                value = read(reply)
            except WrongReply as e:
                failure = Failure(str(e), True)
            else:
                self.succeeded()
                return value
        self.fail(failure)
        return failure

    def succeeded(self) -> None:
        if self.failed or self.debts:
            with self.lock:
                if not self.open:
                    self.failed = 0
                    self.pay()

    def fail(self, failure: Failure) -> None:
        with self.lock:
            self.failures += 1
            self.failed += 1
            if self.open or self.failed < FAILURES_TO_OPEN or self.closed:
                return
            self.open = True
            self.opened += 1
            self.probes = 0
            self.probe_later()
        log.warning("the server is away: failure policies answer; the last failure: %s", failure.text)

    def probe_later(self) -> None:
        delay = PROBES[min(self.probes, len(PROBES) - 1)]
        self.probes += 1
        self.runtime.later(int(delay * (0.8 + 0.4 * self.runtime.random())), self.probe)

    def probe(self) -> None:
        if self.open and not self.closed:
            self.runtime.background(self.ping())

    def ping(self) -> Steps[None]:
        reply: Any = Failure("the client was stopped", False)
        try:
            reply = yield Send(("PING",), self.runtime.now() + self.timeout)
        finally:
            # Some clients turn the answer into True.
            if reply in (b"PONG", "PONG", True):
                self.close_breaker()
            else:
                with self.lock:
                    if self.open and not self.closed:
                        self.probe_later()

    def close_breaker(self) -> None:
        with self.lock:
            self.open = False
            self.failed = 0
            self.pay()
        log.warning("the server answers again")

    def pay(self) -> None:
        if self.debts and not self.charging and not self.closed:
            self.charging = True
            self.runtime.background(self.charge_back())

    def charge_back(self) -> Steps[None]:
        """Charges what failure policies have admitted. Nothing is sent twice."""
        try:
            while True:
                now = self.runtime.now()
                batch: list[tuple[Hashable, Debt]] = []
                with self.lock:
                    while self.debts and len(batch) < BATCH and not self.open:
                        ident, debt = self.debts.popitem(last=False)
                        if now - debt.at <= debt.lasts:
                            batch.append((ident, debt))
                if not batch:
                    return
                self.sent += len(batch)
                replies: list[Any] = yield SendAll([debt.command() for _, debt in batch], now + self.timeout)
                for (ident, debt), reply in zip(batch, replies, strict=True):
                    result = self.judge(reply, lambda r: fields(r, ("allowed",)))
                    if isinstance(reply, Failure):
                        if not reply.maybe:
                            self.owe_again(ident, debt)
                    elif isinstance(result, (Failure, ErrorReply)):
                        log.warning("what was admitted without the server cannot be charged: %s", result.text)
                    else:
                        self.charged += debt.units
        finally:
            self.charging = False

    def owe_again(self, ident: Hashable, debt: Debt) -> None:
        """Keeps a debt that was not sent until the breaker closes again."""
        with self.lock:
            newer = self.debts.get(ident)
            if newer is not None:
                newer.units += debt.units
            elif len(self.debts) < MOST:
                self.debts[ident] = debt

    def owe(self, ident: Hashable, base: Args | None, limit: Limit | None, units: int, now: int) -> None:
        debt = self.debts.get(ident)
        if debt is None:
            if len(self.debts) >= MOST:
                self.debts.popitem(last=False)
            if base is None:
                assert isinstance(ident, str) and limit is not None
                base = base_of(ident, limit)
            debt = self.debts[ident] = Debt(base, counts_for(limit))
        elif now - debt.at > debt.lasts:
            debt.units = 0
        debt.units += units
        debt.at = now

    # --- denials ---

    def remember(self, ident: Hashable, limit: Limit | None, d: Decision, cost: int, now: int) -> None:
        """Remembers a denial by the server. A smaller call's counts for more calls."""
        if d.retry_after == 0:
            return
        old = self.denials.get(ident)
        if old is None:
            if len(self.denials) >= MOST:
                self.denials.popitem(last=False)
        elif cost > old.cost and now < old.until and old.limit == limit:
            return
        self.denials[ident] = Denial(limit, d, cost, now)
        self.denials.move_to_end(ident)

    def recall(self, ident: Hashable, limit: Limit | None, cost: int, now: int) -> Decision | None:
        """Returns a remembered denial that holds for a call of cost. An earlier, larger call
        says nothing."""
        known = self.denials.get(ident)
        if known is None:
            return None
        if now >= known.until or known.limit is not limit and known.limit != limit:
            del self.denials[ident]
            return None
        if cost < known.cost:
            return None
        d, past = known.decision, (now - known.at) / SECOND
        retry = max(d.retry_after - past, 0.001) if d.retry_after > 0 else d.retry_after
        return Decision(
            False, d.limit, d.remaining, retry, max(d.reset_after - past, 0.0), d.delay, "denied", d.degraded, d.status,
            d.name, d.reason, d.hold, d.limits,
        )  # fmt: skip

    def with_wait(self, d: Decision, wait: float) -> Decision:
        return replace(d, retry_after=wait)

    def count(self, d: Decision) -> None:
        if d.allowed:
            self.locals += 1
        else:
            self.denied += 1

    # --- failure policies ---

    def part(self, key: str, now: int) -> float:
        share = self.leases.share(key, now) if self.leases is not None else None
        return self.share if share is None else share

    def fall(
        self, why: Failure | ServerError, ident: Hashable, base: Args, limit: Limit | None, policy: OnFailure, cost: int, *,
        peek: bool = False,
    ) -> Decision:  # fmt: skip
        """Decides a call that the server did not decide. A mistake of the caller is raised."""
        maybe = isinstance(why, ServerError) or why.maybe  # nothing is charged for a mistake
        with self.lock:
            d = self.away(ident, base, limit, policy, cost, peek=peek, maybe=maybe)
        if isinstance(why, ServerError):
            why.decision = d
            raise why
        return d

    def away(
        self, ident: Hashable, base: Args | None, limit: Limit | None, policy: OnFailure, cost: int, *,
        peek: bool = False, maybe: bool = False,
    ) -> Decision:  # fmt: skip
        """Decides a call without the server, under the lock. base is the command for it, or
        None if ident is a key. After maybe the server may have charged the call."""
        self.fallbacks += 1
        now = self.runtime.now()
        if policy == "closed":
            return REFUSAL
        if policy == "open" or limit is None:
            d = ADMISSION
        else:
            share = self.part(ident, now) if isinstance(ident, str) else self.share
            bucket = self.buckets.get(ident, limit, share, now)
            before = bucket.tokens
            d = bucket.ask(cost)
            if peek:
                bucket.tokens = before
        if d.allowed and cost and not maybe and not peek:
            self.owe(ident, base, limit, cost, now)
        return d

    # --- verbs ---

    def usable(self) -> None:
        if self.closed:
            raise ClosedError("the client is closed")

    def exchange(self, args: Args, start: int) -> Steps[Any]:
        """Sends a command. CLUSTERDOWN has changed nothing, so it is tried once more."""
        self.sent += 1
        reply = yield Send(args, start + self.timeout)
        if isinstance(reply, ErrorReply) and reply.code == "CLUSTERDOWN":
            self.sent += 1
            reply = yield Send(args, start + self.timeout)
        return reply

    def call(self, args: Args, read: Callable[[Any], T], start: int | None = None) -> Steps[T | Failure]:
        """Sends a command, unless the breaker is open. The caller's mistakes are raised."""
        result = yield from self.tell(args, read, start)
        if isinstance(result, ServerError):
            raise result
        return result

    def tell(
        self, args: Args, read: Callable[[Any], T], start: int | None = None
    ) -> Steps[T | Failure | ServerError]:
        """As call, but returns the caller's mistakes."""
        self.usable()
        now = self.runtime.now()
        if start is None:
            start = now
        if self.open or now - start >= self.timeout:
            return Failure("the server is away", False)
        reply = yield from self.exchange(args, start)
        result = self.judge(reply, read)
        if isinstance(result, ErrorReply):
            self.mistakes += 1
            return ServerError(result.text)
        return result

    def instead(self, e: ServerError) -> Decision:
        """Returns what the failure policy decides of a call that the server answered with an
        error. Middleware goes by it: a wrong configuration takes no service down. The log has
        the error once a minute."""
        if e.decision is None:
            raise e
        now = self.runtime.now()
        if self.told is None or now - self.told >= 60 * SECOND:
            self.told = now
            log.error("the limiter is configured wrongly, and failure policies answer: %s", e)
        return e.decision

    def try_allow(self, key: str, limit: Limit, cost: int = 1) -> Decision | None:
        """Decides a call without the server, or returns None if the server must be asked."""
        if self.closed:
            self.usable()
        if cost.__class__ is not int or not 0 <= cost <= MOST_UNITS:
            check_cost(cost)
        if key.__class__ is not str:
            check_key(key)
        now = self.runtime.now()
        leases = self.leases
        with self.lock:
            if leases is not None and limit.leasable and cost:
                e = leases.quick(key, limit, cost, now)
                if e.__class__ is Decision:
                    return e
                assert isinstance(e, Entry)
                d = self.recall(key, limit, cost, now) or leases.refuse(e, cost, now)
                if d is not None:
                    self.denied += 1
                    if e.id:
                        leases.renew(e, now)
                    return d
            elif cost and self.denials:
                d = self.recall(key, limit, cost, now)
                if d is not None:
                    self.denied += 1
                    return d
            if self.open:
                return self.away(key, None, limit, limit.on_failure, cost)
        return None

    def ask(self, key: str, limit: Limit, cost: int = 1) -> Steps[Decision]:
        """Asks the server, after try_allow has returned None."""
        start = self.runtime.now()
        leases = self.leases
        if leases is not None and limit.leasable and cost:
            waiter = request = None
            with self.lock:
                e = leases.entry(key, limit, start)
                if leases.lease(e, start):
                    waiter, request = leases.wait(e, cost, start)
            if waiter is not None:
                if request is not None:
                    yield Start(leases.request(request))
                try:
                    yield Join(waiter, start + self.timeout)
                finally:
                    with self.lock:
                        waiter.gone = True
                outcome = waiter.done
                if isinstance(outcome, Decision):
                    return outcome
                if outcome is not ALONE:
                    maybe = waiter.asked if outcome is None else outcome.maybe
                    with self.lock:
                        return self.away(key, None, limit, limit.on_failure, cost, maybe=maybe)
        base = base_of(key, limit)
        args = base if cost == 1 else (*base, "COST", str(cost))
        result = yield from self.tell(args, decision, start)
        if isinstance(result, (Failure, ServerError)):
            return self.fall(result, key, base, limit, limit.on_failure, cost)
        if not result.allowed and cost:
            with self.lock:
                self.remember(key, limit, result, cost, self.runtime.now())
        return result

    def allow(self, key: str, limit: Limit, cost: int = 1) -> Steps[Decision]:
        d = self.try_allow(key, limit, cost)
        if d is None:
            d = yield from self.ask(key, limit, cost)
        return d

    def peek(self, key: str, limit: Limit, cost: int = 1) -> Steps[Decision]:
        check_key(key)
        check_cost(cost)
        base = base_of(key, limit)
        args = (*base, "PEEK") if cost == 1 else (*base, "COST", str(cost), "PEEK")
        result = yield from self.tell(args, decision)
        if isinstance(result, (Failure, ServerError)):
            return self.fall(result, key, base, limit, limit.on_failure, cost, peek=True)
        return result

    def wait(self, key: str, limit: Limit, cost: int = 1, at_most: float | None = None) -> Steps[Decision]:
        until = None if at_most is None else self.runtime.now() + int(at_most * SECOND)
        while True:
            d = yield from self.allow(key, limit, cost)
            if d.allowed or d.retry_after < 0:
                return d
            pause = max(int(d.retry_after * SECOND), MS)
            if until is not None and self.runtime.now() + pause > until:
                return d
            yield Sleep(pause)

    def refund(self, key: str, limit: Limit, cost: int = 1) -> Steps[Decision]:
        check_key(key)
        check_cost(cost)
        result = yield from self.call((*base_of(key, limit), "COST", str(-cost)), decision)
        if isinstance(result, Failure):
            return ADMISSION
        with self.lock:
            self.denials.pop(key, None)
        return result

    def all(self, limits: Iterable[KeyLimit]) -> Steps[Decision]:
        self.usable()
        parts = list(limits)
        if not parts:
            return Decision(True, -1, -1)
        if len(parts) > 32:
            raise ValueError(f"all() has {len(parts)} limits: use 32 at most")
        for p in parts:
            check_key(p.key)
            check_cost(p.cost)
        if len({p.key for p in parts}) < len(parts):
            raise ValueError("two limits of all() have the same key: each limit needs a key of its own")
        now = self.runtime.now()
        loans: list[Loan] = []
        rest: list[KeyLimit] = []
        least: Decision | None = None  # of what is lent
        with self.lock:
            for p in parts:
                d = self.borrow(p, now, loans)
                if d is None:
                    rest.append(p)
                elif not d.allowed:
                    self.repay(loans, False)
                    return d
                elif least is None or d.remaining < least.remaining:
                    least = d
            if not rest:
                assert least is not None
                self.repay(loans, True)
                return least
        admitted = False
        try:
            d = yield from self.all_of(rest)
            admitted = d.allowed
        finally:
            with self.lock:
                self.repay(loans, admitted)
        if least is not None and admitted and (least.remaining < d.remaining or d.limit < 0):
            return replace(least, source=d.source, degraded=d.degraded, delay=d.delay)
        return d

    def borrow(self, p: KeyLimit, now: int, loans: list[Loan]) -> Decision | None:
        """Decides one limit of an all() without the server, if it can."""
        if not p.cost:
            return None
        if self.leases is not None and p.limit.leasable:
            return self.leases.borrow(p.key, p.limit, p.cost, now, loans)
        d = self.recall(p.key, p.limit, p.cost, now)
        if d is not None:
            self.denied += 1
        return d

    def repay(self, loans: list[Loan], spent: bool) -> None:
        now = self.runtime.now()
        for loan in loans:
            loan.settle(spent, now)
        if not spent:
            self.locals -= len(loans)

    def all_of(self, parts: list[KeyLimit]) -> Steps[Decision]:
        """Asks the server for several limits in one command."""
        args: Args = ("RL.LIMIT",)
        for i, p in enumerate(parts):
            args += ("AND",) * (i > 0) + base_of(p.key, p.limit)[1:]
            if p.cost != 1:
                args += ("COST", str(p.cost))
        result = yield from self.call(args, decision)
        if isinstance(result, Failure):
            with self.lock:
                return self.all_away(parts, result.maybe)
        if len(parts) == 1 and not result.allowed and parts[0].cost:
            with self.lock:
                self.remember(parts[0].key, parts[0].limit, result, parts[0].cost, self.runtime.now())
        return result

    def all_away(self, parts: list[KeyLimit], maybe: bool) -> Decision:
        self.fallbacks += 1
        for p in parts:
            if p.limit.on_failure == "closed":
                return REFUSAL
        now = self.runtime.now()
        taken: list[tuple[KeyLimit, Bucket]] = []
        denial: Decision | None = None
        for p in parts:
            if p.limit.on_failure == "local":
                bucket = self.buckets.get(p.key, p.limit, self.part(p.key, now), now)
                taken.append((p, bucket))
                if not bucket.has(p.cost):
                    d = bucket.answer(p.cost, False)
                    if denial is None or 0 <= denial.retry_after < d.retry_after or d.retry_after < 0:
                        denial = d
        if denial is not None:
            return denial
        least: Decision | None = None
        for p, bucket in taken:
            bucket.take(p.cost)
            d = bucket.answer(p.cost, True)
            if least is None or d.remaining < least.remaining:
                least = d
        if not maybe:
            for p in filter(lambda p: p.cost, parts):
                self.owe(p.key, None, p.limit, p.cost, now)
        return least or ADMISSION

    def check(
        self, policy: Policy | str, attributes: Attributes | None = None, cost: int = 1, id: str | None = None
    ) -> Steps[Decision]:
        if isinstance(policy, str):
            policy = Policy(policy)
        check_cost(cost)
        base = ("RL.CHECK", policy.name, *pairs(attributes))
        self.usable()
        with self.lock:
            d = self.recall(base, None, cost, self.runtime.now()) if cost and id is None else None
            if d is not None:
                self.denied += 1
                return d
        args: Args = base
        if cost != 1:
            args += ("COST", str(cost))
        if id is not None:
            args += ("ID", id)
        result = yield from self.tell(args, check)
        if isinstance(result, (Failure, ServerError)):
            return self.fall(result, base, base, policy.limit, policy.stand_in, cost)
        if not result.allowed and cost and id is None:
            with self.lock:
                self.remember(base, None, result, cost, self.runtime.now())
        return result

    def reserve(
        self, policy: Policy | str, attributes: Attributes | None, cost: int, ttl: float | None
    ) -> Steps[Decision]:
        """The decision has a hold if the server took the units."""
        if isinstance(policy, str):
            policy = Policy(policy)
        check_cost(cost)
        attrs = pairs(attributes)
        args: Args = ("RL.RESERVE", policy.name, *attrs)
        if cost != 1:
            args += ("COST", str(cost))
        if ttl is not None:
            args += ("TTL", duration(milliseconds(ttl, "ttl")))
        result = yield from self.call(args, check)
        if isinstance(result, Failure):
            base = ("RL.CHECK", policy.name, *attrs)
            with self.lock:
                return self.away(base, base, policy.limit, policy.stand_in, cost, maybe=result.maybe)
        return result

    def settle(self, hold: str | None, cost: int | None) -> Steps[Decision]:
        """Ends a hold: with a cost, or cancelled. Without the server the hold ends by itself."""
        if hold is None:
            return ADMISSION
        args: Args
        if cost is None:
            args = ("RL.CANCEL", hold)
        else:
            check_cost(cost)
            args = ("RL.COMMIT", hold, "COST", str(cost))
        result = yield from self.call(args, check)
        return ADMISSION if isinstance(result, Failure) else result

    def acquire(
        self, key: str, slots: int, ttl: float, cost: int, on_failure: OnFailure
    ) -> Steps[tuple[Decision, str | None]]:
        """The second result is the id of the holder, or None if nothing is held."""
        check_key(key)
        check_cost(cost, least=1)
        if type(slots) is not int or not 0 <= slots <= MOST_UNITS:
            raise ValueError(f"slots is {slots!r}: use 0 to 2^62 - 1")
        if on_failure not in FAILURES:
            raise ValueError(f"on_failure is {on_failure!r}: use {', '.join(FAILURES)}")
        ttl_ms = milliseconds(ttl, "ttl")
        args: Args = ("RL.ACQUIRE", key, str(slots), duration(ttl_ms))
        if cost != 1:
            args += ("COST", str(cost))
        result = yield from self.call(args, acquired)
        if not isinstance(result, Failure):
            return result
        with self.lock:
            self.fallbacks += 1
            if on_failure == "closed":
                return REFUSAL, None
            if on_failure == "open":
                return ADMISSION, None
            return self.semaphores.acquire(key, slots, self.share, ttl_ms * MS, cost, self.runtime.now())

    def release(self, key: str, id: str | None) -> Steps[None]:
        if id is None:
            return
        with self.lock:
            local = self.semaphores.release(key, id)
        if not local:
            yield from self.call(("RL.RELEASE", key, id), integer)

    def reset(self, key: str) -> Steps[None]:
        check_key(key)
        result = yield from self.call(("RL.RESET", key), integer)
        if isinstance(result, Failure):
            raise UnavailableError(f"the server cannot be asked, nothing is reset: {result.text}")
        with self.lock:
            self.denials.pop(key, None)
            self.buckets.all.pop(key, None)

    # --- the end ---

    def returned(self, args: Args) -> None:
        self.runtime.background(self.give_back(args))

    def give_back(self, args: Args) -> Steps[None]:
        self.sent += 1
        # What is not returned comes back at its deadline.
        yield Send(args, self.runtime.now() + self.timeout)

    def close(self) -> bool:
        """Gives all blocks back, in the background. It reports whether the client was open."""
        with self.lock:
            if self.closed:
                return False
            self.closed = True
            if self.leases is not None:
                self.leases.close(self.runtime.now())
        return True

    def attach(self, waiter: Waiter, wake: Callable[[], None]) -> bool:
        """Has a waiter call wake at its outcome. It reports whether there is none yet."""
        with self.lock:
            waiter.wake = wake
            return waiter.done is None

    def moved(self) -> None:
        """Starts afresh: timers and requests under way are gone."""
        self.open = self.charging = False
        self.failed = self.probes = 0
        if self.leases is not None:
            self.leases.forget()

    def forked(self) -> None:
        """Forgets what belongs to the parent of a forked child: blocks, debts and the breaker's
        state. The parent's threads are gone, and so may be who held the lock."""
        self.lock = threading.Lock()
        self.debts.clear()
        self.semaphores = Semaphores()
        self.moved()

    def stats(self) -> Stats:
        leases = len(self.leases.leased) if self.leases is not None else 0
        return Stats(
            self.sent, self.locals, self.denied, self.fallbacks, self.failures, self.opened, self.charged, leases,
            self.mistakes,
        )  # fmt: skip


def base_of(key: str, limit: Limit) -> Args:
    return ("RL.LIMIT", key, *limit.arguments, *limit.options)


def acquired(reply: Any) -> tuple[Decision, str | None]:
    v = fields(reply, ACQUIRE)
    allowed = integer(v[0]) != 0
    status = 200 if allowed else 429
    d = Decision(
        allowed, integer(v[1]), integer(v[2]), seconds(v[3]), 0.0, 0.0, "server", degraded(reply), status
    )
    return d, text(v[4]) if allowed else None


def pairs(attributes: Attributes | None) -> Args:
    """Returns attributes as arguments. What is None or empty counts as absent."""
    args: list[str] = []
    for name, value in sorted((attributes or {}).items()):
        if not _NAME.fullmatch(name):
            raise ValueError(f"the attribute {name!r} must be a-z, 0-9 and _, 32 characters at most")
        if name in _OPTIONS:
            raise ValueError(f"an attribute cannot be named {name!r}: that is an option")
        if value is None or value == "":
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        args += (name, str(value))
    return tuple(args)


def check_cost(cost: Any, least: int = 0) -> None:
    if type(cost) is not int or not least <= cost <= MOST_UNITS:
        raise ValueError(f"cost is {cost!r}: use {least} to 2^62 - 1")


def check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"the key is {key!r}: use a str")
