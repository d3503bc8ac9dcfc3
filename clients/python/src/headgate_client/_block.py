"""What the client holds of a key, and how often the key is asked for. Times are in nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ._ops import Failure
from ._reply import Grant
from ._values import MS, SECOND, Decision, Limit

# How long a denial is remembered at most.
MEMORY: Final = SECOND

# The parts of a refill's time after which a block is renewed, in percent: a refill that is
# short is not asked for more often than it has to be.
RENEW: Final = 50
RENEW_SHORT: Final = 60
# When a short one is renewed in any case. Before, the client waits until it loses less than a
# quarter of the unit that is becoming due.
RENEW_SHORT_LATEST: Final = 80


class Block:
    """Units to spend until a deadline. The methods keep the rules by which the client never
    spends more than the server has set aside:

    - deadline counts from before the request was sent, refill from when its reply came. Both
      are shorter, or slower, by 1/1000: so much may two clocks differ.
    - Nothing becomes due between a request and its reply. If the reply does not come, the old
      refill does not go on.
    - Units that callers waited for never enter the block.
    """

    __slots__ = (
        "answered", "began", "deadline", "lapses", "lasts", "left", "lent", "refill", "short", "size", "stock", "taken",
    )  # fmt: skip

    def __init__(self) -> None:
        self.stock = 0  # units to spend now
        self.lent = 0  # taken by all(), which may put them back
        self.lapses = 0  # how often a deadline has passed: what was lent before is gone
        self.deadline = 0
        self.refill = 0  # units that become due evenly from began, for a time
        self.taken = 0  # of refill, the units that are part of stock
        self.began = 0
        self.lasts = 0
        self.size = 0  # stock and refill, when the reply came
        self.short = False  # the server granted less than was wanted
        self.left = 0  # of the limit at the server, when the reply came
        self.answered = 0

    def settle(self, now: int) -> None:
        """Brings what is due into the stock, and forgets the block at its deadline."""
        if now >= self.deadline:
            if self.stock or self.lent or self.refill:
                self.stock = self.lent = self.refill = self.taken = 0
                self.lapses += 1
            return
        if self.refill > self.taken and now > self.began:
            past = now - self.began
            due = self.refill if past >= self.lasts else self.refill * past // self.lasts
            if due > self.taken:
                self.stock += due - self.taken
                self.taken = due

    def held(self) -> int:
        """Ends the refill of a settled block, and returns what the client tells the server that
        it has. The units of an all() count: it puts them back, or has spent them."""
        self.refill = self.taken = 0
        return self.stock + self.lent

    def grant(self, g: Grant, sent: int, now: int, need: int, want: int) -> None:
        """Puts the reply to a request into a settled block. need is what callers waited for,
        and want what the request asked for beside what was held."""
        units = g.granted - need if g.decision.allowed else g.granted
        self.short = units + g.refill < want
        self.stock += max(units, 0)
        self.deadline = sent + g.ttl - g.ttl // 1000
        self.refill, self.taken = g.refill, 0
        self.began, self.lasts = now, g.refill_for + g.refill_for // 1000 + 1
        self.size = self.stock + self.refill
        self.left, self.answered = g.decision.remaining, now

    def low(self, now: int) -> bool:
        """Reports whether it is time to renew a settled block."""
        if self.refill == 0:
            return self.stock * 10 <= self.size * 4 and not (self.short and self.left == 0)
        past = now - self.began
        if self.short:
            return past >= self.lasts * RENEW_SHORT_LATEST // 100 or (
                past >= self.lasts * RENEW_SHORT // 100 and self.refill * past % self.lasts <= self.lasts // 4
            )
        return past >= self.lasts * RENEW // 100 or (self.stock + self.refill - self.taken) * 10 <= self.size * 4

    def due(self, now: int, units: int) -> int:
        """Returns how long it takes until a settled block without enough units has them, or is
        renewed. It is 0 if the server must be asked now: the limit had enough left, or what is
        known of it is too old."""
        if not self.short or self.left >= units or self.refill == 0 or now - self.answered >= MEMORY:
            return 0
        until = self.began + self.lasts * RENEW_SHORT // 100
        if units <= self.stock + self.refill - self.taken:
            at = self.began + (self.taken + units - self.stock) * self.lasts // self.refill
            if at < until:
                until = at + 1
        return max(until - now, 0)


# How long demand is measured before it is averaged with what was before.
SPAN: Final = 500 * MS
# The shortest time that a rate is taken from: fewer calls are chance.
LEAST_SPAN: Final = 100 * MS
# A part of a unit that is not looked at.
TINY: Final = 1e-6


class Demand:
    """How often a key is asked for."""

    __slots__ = ("began", "call_rate", "calls", "unit_rate", "units")

    def __init__(self, now: int) -> None:
        self.began = now  # of the span that is measured
        self.calls = self.units = 0  # since then
        self.call_rate = self.unit_rate = 0.0  # a second, before

    def ask(self, units: int, now: int) -> None:
        past = now - self.began
        if past >= SPAN:
            if past >= 4 * SPAN:  # what was before is of no use
                self.call_rate = self.unit_rate = 0.0
            else:
                self.call_rate, self.unit_rate = self.rates(now)
            self.calls = self.units = 0
            self.began = now
        self.calls += 1
        self.units += units

    def rates(self, now: int) -> tuple[float, float]:
        """Returns calls and units a second."""
        past = now - self.began
        if self.call_rate == 0:
            s = max(past, LEAST_SPAN) / SECOND
            return self.calls / s, self.units / s
        if past < LEAST_SPAN:
            return self.call_rate, self.unit_rate
        s = past / SECOND
        return (self.call_rate + self.calls / s) / 2, (self.unit_rate + self.units / s) / 2

    def hot(self, least: float) -> bool:
        """Reports whether a key without a lease is asked for at least so many times a second."""
        return self.calls > least * SPAN / SECOND or self.call_rate >= least

    def want(self, ttl: int, now: int) -> int:
        """Returns how many units the process would use within ttl."""
        return min(math.ceil(self.rates(now)[1] * (ttl / SECOND) - TINY), 1 << 60)


class Entry:
    """What the client knows of a key that it may lease."""

    __slots__ = (
        "ask_alone", "block", "capacity", "demand", "id", "key", "limit", "moved", "pending", "reset_at", "retired",
        "sent", "seq", "used", "waiting",
    )  # fmt: skip

    def __init__(self, key: str, limit: Limit, now: int) -> None:
        self.key, self.limit = key, limit
        self.used = self.moved = now
        self.demand = Demand(now)
        self.id = ""  # names the block at the server: empty while the key is not leased
        self.seq = 0
        self.block = Block()
        self.sent = 0  # when the last request was sent
        self.pending: Request | None = None  # the one that has no reply yet
        self.waiting: list[Waiter] = []
        self.retired = False  # gives its block back after the reply, and has left the client
        self.capacity = 0  # as the server said
        self.reset_at = 0  # when the limit is full
        self.ask_alone = 0  # no lease before then


class Loan:
    """What all() took from a block."""

    __slots__ = ("block", "cost", "lapses")

    def __init__(self, block: Block, cost: int) -> None:
        self.block, self.lapses, self.cost = block, block.lapses, cost
        block.lent += cost

    def settle(self, spent: bool, now: int) -> None:
        """Ends the loan: the units are spent, or put back. What has lapsed since stays away. So
        does what has gone back to the server: its entry has another block now."""
        b = self.block
        b.settle(now)
        if b.lapses == self.lapses:
            b.lent -= self.cost
            if not spent:
                b.stock += self.cost


class Request:
    """An RL.LEASE without a reply."""

    __slots__ = ("args", "entry", "held", "need", "sent", "seq", "waiters", "want")

    def __init__(self, entry: Entry, now: int, held: int, want: int) -> None:
        self.entry, self.seq, self.sent = entry, entry.seq, now
        self.held, self.want, self.need = held, want, 0
        self.waiters: list[Waiter] = []
        self.args: tuple[str, ...] = ()


class Waiter:
    """A call that waits for a reply."""

    __slots__ = ("again", "asked", "cost", "done", "gone", "wake")

    def __init__(self, cost: int) -> None:
        self.cost = cost
        self.again = False  # denied as part of a larger sum before
        self.asked = False  # part of a request: the server may have charged it
        self.gone = False  # its caller does not wait any more
        self.done: Decision | Failure | None = None
        self.wake: Callable[[], None] | None = None

    def end(self, outcome: Decision | Failure) -> None:
        self.done = outcome
        if self.wake is not None:
            self.wake()
