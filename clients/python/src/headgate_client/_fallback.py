"""What answers while the server is away, and what is owed to it when it returns."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from ._ops import Args
from ._values import MS, Decision, Limit, fallen

# Keys that are remembered at most.
MOST: Final = 10_000
# The part of a limit of a process that knows neither holders nor processes.
SHARE: Final = 0.2
# A part of a unit that a bucket may lack: sums of fractions must not deny the last unit.
TINY: Final = 1e-6


class Bucket:
    """A share of a limit. Times are in nanoseconds."""

    __slots__ = ("at", "capacity", "limit", "rate", "share", "tokens")

    def __init__(self, limit: Limit, share: float, now: int) -> None:
        self.limit, self.at, self.tokens = limit, now, math.inf
        self.divide(share)

    def divide(self, share: float) -> None:
        self.share = share
        self.capacity = max(share * self.limit.capacity, 1.0)
        self.rate = share * self.limit.units / (self.limit.period_ms * MS)
        self.tokens = min(self.tokens, self.capacity)

    def fill(self, now: int) -> None:
        if now > self.at:
            self.tokens = min(self.capacity, self.tokens + (now - self.at) * self.rate)
            self.at = now

    def ask(self, cost: int) -> Decision:
        """Takes cost, or denies."""
        limit, tokens = self.limit, self.tokens
        if tokens + TINY < cost or limit.units == 0:
            return self.answer(cost, False)
        self.tokens = tokens = max(tokens - cost, 0.0)
        lacks = self.capacity - tokens
        return fallen(True, limit.capacity, int(tokens + TINY), 0.0, _ceil_ms(lacks / self.rate) if lacks else 0.0)

    def has(self, cost: int) -> bool:
        return self.limit.units > 0 and self.tokens + TINY >= cost

    def take(self, cost: int) -> None:
        self.tokens = max(self.tokens - cost, 0.0)

    def answer(self, cost: int, allowed: bool) -> Decision:
        """Returns the decision on a call of cost, after it was taken or denied."""
        wait = 0.0
        if not allowed:
            if self.limit.units == 0 or cost > self.limit.capacity:
                wait = -1.0
            elif cost > self.capacity + TINY:
                wait = 1.0  # only the server can admit it
            else:
                wait = _ceil_ms((cost - self.tokens) / self.rate)
        reset = _ceil_ms((self.capacity - self.tokens) / self.rate) if self.rate > 0 else 0.0
        return fallen(allowed, self.limit.capacity, int(self.tokens + TINY) if self.limit.units else 0, wait, reset)


# What open and closed answer.
ADMISSION: Final = Decision(True, -1, -1, 0.0, 0.0, 0.0, "fallback", True, 200)
REFUSAL: Final = Decision(False, -1, -1, 1.0, 0.0, 0.0, "fallback", True, 503)


def _ceil_ms(ns: float) -> float:
    return -int(-(ns - 1) // MS) / 1000 if ns > 0 else 0.0


class Debt:
    """Units of a key that were admitted without the server."""

    __slots__ = ("args", "at", "lasts", "units")

    def __init__(self, args: Args, lasts: int) -> None:
        self.args = args  # the command up to its cost
        self.lasts = lasts  # how long such units count
        self.units = 0
        self.at = 0

    def command(self) -> Args:
        cost = () if self.units == 1 else ("COST", str(self.units))
        return (*self.args, *cost, "FORCE")


def counts_for(limit: Limit | None) -> int:
    """Returns how long the limit takes to be full again, in nanoseconds."""
    if limit is None or limit.units == 0:
        return 1 << 62
    if limit.algorithm in ("token", "leaky"):
        return limit.window_ms * MS
    return limit.period_ms * MS * (2 if limit.algorithm == "sliding" else 1)


class Buckets:
    """The buckets of the keys that were used last."""

    def __init__(self) -> None:
        self.all: OrderedDict[Hashable, Bucket] = OrderedDict()

    def get(self, key: Hashable, limit: Limit, share: float, now: int) -> Bucket:
        b = self.all.get(key)
        if b is None or b.limit is not limit and b.limit != limit:
            if b is None and len(self.all) >= MOST:
                self.all.popitem(last=False)
            b = self.all[key] = Bucket(limit, share, now)
        self.all.move_to_end(key)
        b.fill(now)
        if share != b.share:
            b.divide(share)
        return b


class Semaphores:
    """Shares of the slots of keys."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, tuple[int, int]]] = {}  # by key and holder: until, slots
        self.number = 0

    def acquire(
        self, key: str, slots: int, share: float, ttl: int, cost: int, now: int
    ) -> tuple[Decision, str | None]:
        held = {id: h for id, h in self.held.get(key, {}).items() if h[0] > now}
        most = max(int(share * slots + TINY), 1) if slots else 0
        free = most - sum(h[1] for h in held.values())
        id = None
        wait = 0.0
        if cost <= free:
            self.number += 1
            id = f"local-{self.number}"
            held[id] = (now + ttl, cost)
            free -= cost
        elif cost > slots:
            wait = -1.0
        else:
            wait = 1.0  # if only the server can admit it
            room = free
            for until, n in sorted(held.values()):
                room += n
                if room >= cost:
                    wait = _ceil_ms(until - now)
                    break
        if held:
            if key not in self.held and len(self.held) >= MOST:
                del self.held[next(iter(self.held))]
            self.held[key] = held
        else:
            self.held.pop(key, None)
        allowed = id is not None
        return Decision(
            allowed, slots, max(free, 0), wait, 0.0, 0.0, "fallback", True, 200 if allowed else 429
        ), id  # fmt: skip

    def release(self, key: str, id: str) -> bool:
        """Reports whether id held slots here."""
        held = self.held.get(key, {})
        if id.startswith("local-"):
            held.pop(id, None)
            return True
        return False
