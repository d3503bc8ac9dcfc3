"""Values without I/O: limits, policies, decisions and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

Algorithm = Literal["token", "leaky", "fixed", "sliding", "log"]
OnFailure = Literal["local", "open", "closed"]
Source = Literal["server", "lease", "denied", "fallback", "backstop"]

ALGORITHMS: Final = ("token", "leaky", "fixed", "sliding", "log")
FAILURES: Final = ("local", "open", "closed")
MS: Final = 1_000_000  # nanoseconds
SECOND: Final = 1_000 * MS
MOST_UNITS: Final = 2**62 - 1
_MOST_PERIOD: Final = 100 * 365 * 86400 * 1000  # ms


class HeadgateError(Exception):
    """An error of this package."""


class ServerError(HeadgateError):
    """An error that the server answered to a wrong call, such as WRONGTYPE or NOPOLICY.

    ``decision`` is what the failure policy decides instead, after allow, peek and check.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.partition(" ")[0]
        self.decision: Decision | None = None


class ConfigurationError(HeadgateError):
    """Middleware cannot tell whom to count, since it was not told of the proxies before it."""


class UnavailableError(HeadgateError):
    """The server could not be asked, and no failure policy can answer for it."""


class ClosedError(HeadgateError):
    """The client is closed."""


def milliseconds(value: float | timedelta, what: str) -> int:
    """Returns a time in whole milliseconds. It is given in seconds, or as a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    ms = seconds * 1000
    if isinstance(ms, float):
        if not math.isfinite(ms) or abs(ms - round(ms)) > 1e-6 * max(1.0, abs(ms)):
            raise ValueError(f"{what} is {value!r}: use whole milliseconds")
        ms = round(ms)
    if not 1 <= ms <= _MOST_PERIOD:
        raise ValueError(f"{what} is {value!r}: use 1 ms to 100 years")
    return ms


def duration(ms: int) -> str:
    """Writes milliseconds as the server reads them."""
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


@dataclass(frozen=True)
class Limit:
    """How many units a key may use. Every process must use the same limit for a key.

    ``period`` is in seconds, or a timedelta. ``burst`` is the capacity of ``token`` and
    ``leaky``; it is ``units`` if it is None. ``on_failure`` says what answers while the server
    is away. With ``leased`` the client may decide from units that it has taken before.
    """

    units: int
    period: float | timedelta
    algorithm: Algorithm = "token"
    burst: int | None = None
    on_failure: OnFailure = "local"
    leased: bool = True

    capacity: int = field(init=False, repr=False, compare=False)
    period_ms: int = field(init=False, repr=False, compare=False)
    leasable: bool = field(init=False, repr=False, compare=False)
    # What commands say of the limit: after the key, and in their options.
    arguments: tuple[str, str] = field(init=False, repr=False, compare=False)
    options: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.units) is not int or not 0 <= self.units <= MOST_UNITS:
            raise ValueError(f"units is {self.units!r}: use 0 to 2^62 - 1")
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm is {self.algorithm!r}: use {', '.join(ALGORITHMS)}")
        if self.on_failure not in FAILURES:
            raise ValueError(f"on_failure is {self.on_failure!r}: use {', '.join(FAILURES)}")
        options: tuple[str, ...] = ()
        if self.algorithm != "token":
            options += ("ALGORITHM", self.algorithm)
        if self.burst is not None:
            if self.algorithm not in ("token", "leaky"):
                raise ValueError(f"burst is for token and leaky, not for {self.algorithm}")
            if type(self.burst) is not int or not 1 <= self.burst <= MOST_UNITS:
                raise ValueError(f"burst is {self.burst!r}: use 1 to 2^62 - 1")
            if self.burst != self.units:
                options += ("BURST", str(self.burst))
        ms = milliseconds(self.period, "period")
        put = object.__setattr__
        put(self, "period_ms", ms)
        put(self, "capacity", 0 if self.units == 0 else self.burst or self.units)
        put(self, "leasable", self.leased and self.units > 1 and self.algorithm in ("token", "fixed", "sliding"))
        put(self, "arguments", (str(self.units), duration(ms)))
        put(self, "options", options)

    @classmethod
    def per_second(cls, units: int) -> Limit:
        """A token bucket of units per second, with a capacity of as many."""
        return cls(units, 1)

    @classmethod
    def per_minute(cls, units: int) -> Limit:
        """A token bucket of units per minute, with a capacity of as many."""
        return cls(units, 60)

    @property
    def window_ms(self) -> int:
        """The time in which the limit admits its capacity."""
        if self.burst is None or self.units == 0:
            return self.period_ms
        return -(-self.burst * self.period_ms // self.units)


@dataclass(frozen=True)
class Policy:
    """A policy on the server, by its name.

    ``limit`` stands for the policy while the server is away and ``on_failure`` is ``local``.
    Without it, ``local`` admits every call.
    """

    name: str
    on_failure: OnFailure = "local"
    limit: Limit | None = None

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise ValueError(f"the name of a policy is {self.name!r}: use a text")
        if self.on_failure not in FAILURES:
            raise ValueError(f"on_failure is {self.on_failure!r}: use {', '.join(FAILURES)}")

    @property
    def stand_in(self) -> OnFailure:
        """What answers while the server is away."""
        return "open" if self.on_failure == "local" and self.limit is None else self.on_failure


@dataclass(frozen=True)
class LimitState:
    """One limit of a policy, as a check has found it. Times are in seconds."""

    allowed: bool
    limit: int
    remaining: int
    retry_after: float
    reset_after: float
    delay: float
    cost: int
    mode: str
    status: int
    window: float


_NONE: Final[Mapping[str, LimitState]] = {}


@dataclass(frozen=True)
class Decision:
    """The answer to a call. Times are in seconds.

    ``retry_after`` is 0 if the call is allowed. Otherwise it is the wait after which the same
    call may pass, or -1 if no wait helps. ``status`` is the HTTP status that fits: 200, 429,
    503 or 403. ``name``, ``reason``, ``hold`` and ``limits`` are those of a policy's check.
    """

    allowed: bool
    limit: int
    remaining: int
    retry_after: float = 0.0
    reset_after: float = 0.0
    delay: float = 0.0
    source: Source = "server"
    degraded: bool = False
    status: int = 200
    name: str | None = None
    reason: str | None = None
    hold: str | None = None
    limits: Mapping[str, LimitState] = field(default_factory=lambda: _NONE)


# Fields without a value in an instance have that of the class. So a decision of the fast path
# is made without the dataclass's __init__, which takes several times as long.
setattr(Decision, "limits", _NONE)  # noqa: B010
_new, _put = object.__new__, object.__setattr__


def leased(limit: int, remaining: int, reset_after: float) -> Decision:
    """Returns a decision that admits a call from a lease."""
    d = _new(Decision)
    fields = {"allowed": True, "limit": limit, "remaining": remaining, "reset_after": reset_after, "source": "lease"}
    _put(d, "__dict__", fields)
    return d


def fallen(allowed: bool, limit: int, remaining: int, retry_after: float, reset_after: float) -> Decision:
    """Returns a decision of the failure policy ``local``."""
    d = _new(Decision)
    fields = {
        "allowed": allowed, "limit": limit, "remaining": remaining, "retry_after": retry_after,
        "reset_after": reset_after, "source": "fallback", "degraded": True, "status": 200 if allowed else 429,
    }  # fmt: skip
    _put(d, "__dict__", fields)
    return d
