"""When the next request to a server may go out, by what its answers say of its limits."""

from __future__ import annotations

import email.utils
import math
import random
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

# Servers that are remembered.
MOST: Final = 1000
# What a wait is longer by at most, so that callers do not come back together.
JITTER: Final = 0.1
_ITEM: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^;,\s]+)((?:\s*;\s*[a-z*][a-z0-9_.*-]*(?:=[^;,]*)?)*)', re.IGNORECASE)


class Host:
    __slots__ = ("due", "interval", "left")

    def __init__(self) -> None:
        self.due = 0.0  # when the next request may go out
        self.left: float | None = None  # requests that may go out without an answer
        self.interval = 0.0  # between requests, while few are left


class Pace:
    """Requests go out as they come while a server has half of its limit left. Below that they
    are spaced by the rate of the limit, and after a denial they wait as the server says."""

    def __init__(
        self, max_wait: float = 60.0, clock: Callable[[], float] = time.time, chance: Callable[[], float] = random.random
    ) -> None:
        self.max_wait, self.clock, self.chance = max_wait, clock, chance
        self.lock = threading.Lock()
        self.hosts: OrderedDict[str, Host] = OrderedDict()

    def before(self, host: str) -> float:
        """Returns for how many seconds a request must wait. It goes out after that."""
        now = self.clock()
        with self.lock:
            h = self.hosts.get(host)
            if h is None:
                return 0.0
            at = max(now, h.due)
            if h.interval:
                h.due = at + h.interval
            wait = (at - now) * (1 + JITTER * self.chance())
        return min(wait, self.max_wait)

    def after(self, host: str, status: int, headers: Mapping[str, str]) -> None:
        """Notes what an answer says."""
        now = self.clock()
        left, limit, reset, window = read(headers, now)
        retry = seconds(headers.get("retry-after"), now)
        if left is None and retry is None:
            return
        with self.lock:
            h = self.hosts.get(host)
            if h is None:
                if len(self.hosts) >= MOST:
                    self.hosts.popitem(last=False)
                h = self.hosts[host] = Host()
            self.hosts.move_to_end(host)
            h.interval = 0.0
            if left is not None and (limit is None or left <= limit / 2):
                if window and limit:
                    h.interval = window / limit
                elif reset:
                    h.interval = reset / max(left, 1)
                h.due = max(h.due, now + h.interval)
            if retry is not None and status in (429, 503):
                h.due = max(h.due, now + retry)
            elif left == 0 and reset:
                h.due = max(h.due, now + (min(reset, window / limit) if window and limit else reset))


def seconds(value: str | None, now: float) -> float | None:
    """Reads Retry-After: seconds or a date."""
    if value is None:
        return None
    n = number(value)
    if n is not None:
        return n
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None


def number(value: str | None) -> float | None:
    try:
        n = float(value) if value is not None else -1
    except ValueError:
        return None
    return n if 0 <= n < math.inf else None


def items(value: str | None) -> dict[str, dict[str, float]]:
    """Reads a list of names with parameters that are numbers."""
    out: dict[str, dict[str, float]] = {}
    for part in (value or "").split(","):
        m = _ITEM.match(part)
        if m is not None:
            pairs = (p.partition("=") for p in m[2].split(";") if "=" in p)
            out[m[1].strip('"')] = {k.strip(): n for k, _, v in pairs if (n := number(v)) is not None}
    return out


def read(headers: Mapping[str, str], now: float) -> tuple[float | None, float | None, float | None, float | None]:
    """Returns what is left of the limit that has least left, the limit, the seconds until its
    reset, and its window."""
    policies = items(headers.get("ratelimit-policy"))
    best: tuple[float, float | None, float | None, float | None] | None = None
    for name, p in items(headers.get("ratelimit")).items():
        if "r" in p and (best is None or p["r"] < best[0]):
            policy = policies.get(name, {})
            best = p["r"], policy.get("q"), p.get("t"), policy.get("w")
    left, limit = number(headers.get("x-ratelimit-remaining")), number(headers.get("x-ratelimit-limit"))
    reset = number(headers.get("x-ratelimit-reset"))
    if reset is not None and reset > 1e9:  # a time, where others have seconds
        reset = max(reset - now, 0.0)
    if best is not None:
        return best[0], best[1], best[2] if best[2] is not None else reset, best[3]
    return left, limit, reset, None
