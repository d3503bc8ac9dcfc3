"""Measures decisions that need no server: .venv/bin/python speed.py"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

sys.path.insert(0, "src")
sys.path.insert(0, "tests")

from server import Server  # noqa: E402

from headgate_client import Client, Limit, _leases  # noqa: E402

CALLS = 200_000


def measure(name: str, call: Callable[[int], object]) -> None:
    """Prints percentiles of single calls, in time of the processor, less what taking the time
    takes."""
    clock = time.thread_time_ns
    times = []
    for i in range(CALLS):
        began = clock()
        call(i)
        times.append(clock() - began)
    nothing = []
    for _ in range(10_000):
        began = clock()
        nothing.append(clock() - began)
    own = sorted(nothing)[5000]
    times.sort()
    p50, p99, p999 = (max(times[int(CALLS * q)] - own, 0) / 1000 for q in (0.5, 0.99, 0.999))
    print(f"{name:36} p50 {p50:5.1f} µs   p99 {p99:5.1f} µs   p99.9 {p999:5.1f} µs")


def main() -> None:
    gc.freeze()
    server = Server()
    busy = Limit(1_000_000_000, 60)
    keys = [f"user:{i}" for i in range(10_000)]
    with Client(server.addr, lease_ttl=60) as c:
        for _ in range(200):
            c.allow("hot", busy)
        measure("lease, one key", lambda i: c.try_allow("hot", busy))
        _leases.HOT = 0.001  # type: ignore[misc]  # no process asks for 10,000 keys 20 times a second each
        began = time.monotonic()
        while c.stats().leases < 9_900 and time.monotonic() - began < 60:
            for key in keys:
                c.allow(key, busy)
        measure(f"lease, {c.stats().leases} keys", lambda i: c.try_allow(keys[i % 10_000], busy))
    with Client("127.0.0.1:1", leases=False) as c:
        for _ in range(5):
            c.allow("away", busy)
        measure("server away, one key", lambda i: c.allow("away", busy))
        measure("server away, 10,000 keys", lambda i: c.allow(keys[i % 10_000], busy))
    server.stop()


main()
