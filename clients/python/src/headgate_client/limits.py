"""Storages for the library ``limits``, and so for Flask-Limiter and slowapi.

Import this module, and use the address ``headgate://127.0.0.1:7379``, or ``async+headgate://…``
for ``limits.aio``. Several nodes of a cluster stand between commas. The options of a storage are
the keyword arguments of Client, and ``on_failure``.

The strategies are the server's algorithms: fixed-window is ``fixed``, moving-window ``log`` and
sliding-window-counter ``sliding``. A hit that is denied takes nothing.
"""

from __future__ import annotations

import contextvars
import time
from typing import Any, Final

from limits.aio.storage import MovingWindowSupport as AsyncMovingWindow
from limits.aio.storage import SlidingWindowCounterSupport as AsyncSlidingWindow
from limits.aio.storage import Storage as AsyncLimitsStorage
from limits.limits import TIME_TYPES
from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport
from limits.storage import Storage as LimitsStorage

from ._async import AsyncClient
from ._sync import Client
from ._values import Algorithm, Decision, HeadgateError, Limit, OnFailure, ServerError

# How long a decision also answers what is asked of its key after it, such as header fields.
FRESH: Final = 0.05
SECONDS: Final = {name: t.seconds for name, t in TIME_TYPES.items()}
# The limit of a counter whose key does not name one.
UNKNOWN: Final = 2**53

_last: contextvars.ContextVar[tuple[Keys, str, float, Decision] | None] = contextvars.ContextVar("headgate", default=None)


def addresses(uri: str | None) -> list[str]:
    hosts = (uri or "headgate://127.0.0.1:7379").partition("://")[2].rstrip("/")
    login, at, rest = hosts.rpartition("@")
    return [f"redis://{login}{at}{host}" for host in rest.split(",")]


class Keys:
    """Limits by the keys of the library, which end in ``amount/multiples/granularity``, and the
    last decision of this task or thread."""

    def __init__(self, on_failure: OnFailure) -> None:
        self.on_failure = on_failure

    def limit(self, key: str, algorithm: Algorithm, expiry: int | None = None, amount: int | None = None) -> Limit:
        parts = key.split("/")
        if amount is None and len(parts) >= 3 and parts[-3].isdigit():
            amount = int(parts[-3])
        if expiry is None and len(parts) >= 2 and parts[-2].isdigit():
            expiry = int(parts[-2]) * SECONDS.get(parts[-1], 0)
        return Limit(amount if amount is not None else UNKNOWN, expiry or 60, algorithm, on_failure=self.on_failure)

    def keep(self, key: str, d: Decision) -> Decision:
        _last.set((self, key, time.monotonic(), d))
        return d

    def kept(self, key: str) -> Decision | None:
        """Returns the decision on a key that this task or thread has just got."""
        last = _last.get()
        fresh = last is not None and last[0] is self and last[1] == key and time.monotonic() - last[2] < FRESH
        return last[3] if last is not None and fresh else None


def used(d: Decision, limit: Limit) -> int:
    """Returns the units that are used, and one more than there are if the call was denied."""
    if d.limit < 0:
        return 0 if d.allowed else limit.units + 1
    return d.limit - d.remaining


def hits(d: Decision, limit: Limit) -> int:
    return used(d, limit) if d.allowed else limit.units + 1


def window(d: Decision, limit: Limit) -> tuple[float, int]:
    """Returns when the oldest hit was, as far as it is known, and how many there are."""
    wait = d.retry_after if d.retry_after > 0 else d.reset_after
    return time.time() + wait - limit.period_ms / 1000, used(d, limit)


def sliding(d: Decision, limit: Limit) -> tuple[int, float, int, float]:
    return 0, 0.0, used(d, limit), d.reset_after % (limit.period_ms / 1000)


class Storage(LimitsStorage, MovingWindowSupport, SlidingWindowCounterSupport):
    STORAGE_SCHEME = ["headgate"]

    def __init__(
        self, uri: str | None = None, wrap_exceptions: bool = False, on_failure: OnFailure = "local", **options: Any
    ) -> None:
        super().__init__(uri, wrap_exceptions)
        self.client = Client(addresses(uri), **options)
        self.keys = Keys(on_failure)

    @property
    def base_exceptions(self) -> type[Exception]:
        return HeadgateError

    def look(self, key: str, limit: Limit) -> Decision:
        d = self.keys.kept(key)
        if d is None:
            try:
                d = self.client.peek(key, limit, 0)
            except ServerError as e:
                d = self.client._core.instead(e)
            self.keys.keep(key, d)
        return d

    def take(self, key: str, limit: Limit, amount: int) -> Decision:
        try:
            return self.keys.keep(key, self.client.allow(key, limit, amount))
        except ServerError as e:
            return self.keys.keep(key, self.client._core.instead(e))

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        limit = self.keys.limit(key, "fixed", expiry)
        return hits(self.take(key, limit, amount), limit)

    def get(self, key: str) -> int:
        limit = self.keys.limit(key, "fixed")
        return used(self.look(key, limit), limit)

    def get_expiry(self, key: str) -> float:
        return time.time() + self.look(key, self.keys.limit(key, "fixed")).reset_after

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self.take(key, self.keys.limit(key, "log", expiry, limit), amount).allowed

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        rule = self.keys.limit(key, "log", expiry, limit)
        return window(self.look(key, rule), rule)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self.take(key, self.keys.limit(key, "sliding", expiry, limit), amount).allowed

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        rule = self.keys.limit(key, "sliding", expiry)
        return sliding(self.look(key, rule), rule)

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self.clear(key)

    def clear(self, key: str) -> None:
        _last.set(None)
        self.client.reset(key)

    def check(self) -> bool:
        return self.client.state == "closed"

    def reset(self) -> int | None:
        raise NotImplementedError("Headgate forgets one key at a time: use clear")


class AsyncStorage(AsyncLimitsStorage, AsyncMovingWindow, AsyncSlidingWindow):
    STORAGE_SCHEME = ["async+headgate"]

    def __init__(
        self, uri: str | None = None, wrap_exceptions: bool = False, on_failure: OnFailure = "local", **options: Any
    ) -> None:
        super().__init__(uri, wrap_exceptions)
        self.client = AsyncClient(addresses(uri), **options)
        self.keys = Keys(on_failure)

    @property
    def base_exceptions(self) -> type[Exception]:
        return HeadgateError

    async def look(self, key: str, limit: Limit) -> Decision:
        d = self.keys.kept(key)
        if d is None:
            try:
                d = await self.client.peek(key, limit, 0)
            except ServerError as e:
                d = self.client._core.instead(e)
            self.keys.keep(key, d)
        return d

    async def take(self, key: str, limit: Limit, amount: int) -> Decision:
        try:
            return self.keys.keep(key, await self.client.allow(key, limit, amount))
        except ServerError as e:
            return self.keys.keep(key, self.client._core.instead(e))

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        limit = self.keys.limit(key, "fixed", expiry)
        return hits(await self.take(key, limit, amount), limit)

    async def get(self, key: str) -> int:
        limit = self.keys.limit(key, "fixed")
        return used(await self.look(key, limit), limit)

    async def get_expiry(self, key: str) -> float:
        return time.time() + (await self.look(key, self.keys.limit(key, "fixed"))).reset_after

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return (await self.take(key, self.keys.limit(key, "log", expiry, limit), amount)).allowed

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        rule = self.keys.limit(key, "log", expiry, limit)
        return window(await self.look(key, rule), rule)

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return (await self.take(key, self.keys.limit(key, "sliding", expiry, limit), amount)).allowed

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        rule = self.keys.limit(key, "sliding", expiry)
        return sliding(await self.look(key, rule), rule)

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        await self.clear(key)

    async def clear(self, key: str) -> None:
        _last.set(None)
        await self.client.reset(key)

    async def check(self) -> bool:
        return self.client.state == "closed"

    async def reset(self) -> int | None:
        raise NotImplementedError("Headgate forgets one key at a time: use clear")
