"""Measures decisions that need no server, and what middleware costs: .venv/bin/python speed.py

With --json, prints a line of JSON for each row.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, "src")
sys.path.insert(0, "tests")

from server import Server  # noqa: E402

from headgate_client import AsyncClient, Client, Limit, _leases  # noqa: E402
from headgate_client.asgi import RateLimit  # noqa: E402

CALLS = 200_000


def measure(of: str, keys: int, name: str, call: Callable[[int], object]) -> None:
    """Prints percentiles of single calls, in time of the processor, less what taking the time
    takes."""
    clock = time.thread_time_ns
    times = []
    for i in range(CALLS):
        began = clock()
        call(i)
        times.append(clock() - began)
    report(of, keys, name, times)


def report(of: str, keys: int, name: str, times: list[int]) -> None:
    clock = time.thread_time_ns
    nothing = []
    for _ in range(10_000):
        began = clock()
        nothing.append(clock() - began)
    own = sorted(nothing)[5000]
    times.sort()
    p50, p99, p999 = (max(times[int(len(times) * q)] - own, 0) / 1000 for q in (0.5, 0.99, 0.999))
    if "--json" in sys.argv:
        print(json.dumps({"of": of, "keys": keys, "p50": p50 * 1000, "p99": p99 * 1000}))
        return
    print(f"{name:36} p50 {p50:5.1f} µs   p99 {p99:5.1f} µs   p99.9 {p999:5.1f} µs")


def main() -> None:
    gc.freeze()
    server = Server()
    busy = Limit(1_000_000_000, 60)
    keys = [f"user:{i}" for i in range(10_000)]
    with Client(server.addr, lease_ttl=60) as c:
        for _ in range(200):
            c.allow("hot", busy)
        measure("lease", 1, "lease, one key", lambda i: c.try_allow("hot", busy))
        _leases.HOT = 0.001  # type: ignore[misc]  # no process asks for 10,000 keys 20 times a second each
        began = time.monotonic()
        while c.stats().leases < 9_900 and time.monotonic() - began < 60:
            for key in keys:
                c.allow(key, busy)
        measure("lease", 10_000, f"lease, {c.stats().leases} keys", lambda i: c.try_allow(keys[i % 10_000], busy))
    with Client("127.0.0.1:1", leases=False) as c:
        for _ in range(5):
            c.allow("away", busy)
        measure("away", 1, "server away, one key", lambda i: c.allow("away", busy))
        measure("away", 10_000, "server away, 10,000 keys", lambda i: c.allow(keys[i % 10_000], busy))
    asyncio.run(middleware(server.addr))
    server.stop()


async def middleware(addr: str) -> None:
    """Measures middleware of ASGI around an application that does nothing, without a network."""
    start = {"type": "http.response.start", "status": 200, "headers": []}

    async def app(_scope: object, _receive: object, send: Callable[[Any], Any]) -> None:
        await send(dict(start))
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: object) -> None:
        pass

    scope = {"type": "http", "headers": [], "client": ("192.0.2.1", 1)}
    times = []
    async with AsyncClient(addr, lease_ttl=60) as c:
        limited = RateLimit(app, client=c, limit=Limit(1_000_000_000, 60), key=lambda _scope: "m")
        for i in range(-500, CALLS // 4):
            began = time.thread_time_ns()
            await limited(scope, receive, send)
            if i >= 0:
                times.append(time.thread_time_ns() - began)
            else:
                await asyncio.sleep(0)  # the first ones ask for a lease
    report("middleware", 1, "middleware of ASGI with a lease", times)


main()
