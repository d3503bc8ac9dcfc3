"""Requests that one makes, spaced by what servers say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import requests
from load import App
from server import Server

from headgate_client._pace import Pace, items
from headgate_client.httpx import AsyncTransport, Transport
from headgate_client.requests import Adapter


def test_fields_are_read() -> None:
    assert items('"a b";r=5;t=3, default;r=1') == {"a b": {"r": 5, "t": 3}, "default": {"r": 1}}
    assert items(None) == {}
    for hostile in ('"' * 1000, "a;" * 1000, "a;r=" + "9" * 400, "\x00;r=1", "a;r=nan"):
        pace = Pace()
        pace.after("h", 429, {"ratelimit": hostile, "x-ratelimit-reset": hostile, "retry-after": hostile})
        assert pace.before("h") == 0


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (200, {}, 0),
        (200, {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "6", "x-ratelimit-reset": "60"}, 0),
        (200, {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "5", "x-ratelimit-reset": "60"}, 12),
        (200, {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "5", "x-ratelimit-reset": "1000000060"}, 12),
        (200, {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "20"}, 20),
        (200, {"ratelimit": '"default";r=2', "ratelimit-policy": '"default";q=10;w=60'}, 6),
        (200, {"ratelimit": '"a";r=9, "b";r=1', "ratelimit-policy": '"a";q=10;w=60, "b";q=2;w=4'}, 2),
        (429, {"ratelimit": '"a";r=0;t=9', "ratelimit-policy": '"a";q=10;w=60', "retry-after": "9"}, 9),
        (503, {"retry-after": "7"}, 7),
        (429, {"retry-after": "Sun, 09 Sep 2001 01:47:00 GMT"}, 20),
        (429, {"retry-after": "86400"}, 60),
    ],
)
def test_waits(status: int, headers: dict[str, str], wait: float) -> None:
    pace = Pace(clock=lambda: 1_000_000_000.0, chance=lambda: 0.0)
    pace.after("h", status, headers)
    assert pace.before("h") == pytest.approx(wait)
    assert pace.before("other") == 0
    late = Pace(clock=lambda: 1_000_000_000.0, chance=lambda: 1.0)
    late.after("h", status, headers)
    assert late.before("h") == pytest.approx(min(wait * 1.1, 60))


def test_requests_at_the_same_time_are_spaced() -> None:
    pace = Pace(clock=lambda: 0.0, chance=lambda: 0.0)
    pace.after("h", 200, {"ratelimit": '"a";r=2', "ratelimit-policy": '"a";q=10;w=20'})
    assert [pace.before("h") for _ in range(3)] == [2, 4, 6]


def by_httpx(url: str, n: int) -> list[int]:
    with httpx.Client(transport=Transport()) as client:
        return [client.get(url).status_code for _ in range(n)]


def by_httpx_async(url: str, n: int) -> list[int]:
    async def run() -> list[int]:
        async with httpx.AsyncClient(transport=AsyncTransport()) as client:
            return [(await client.get(url)).status_code for _ in range(n)]

    return asyncio.run(run())


def by_requests(url: str, n: int) -> list[int]:
    with requests.Session() as session:
        session.mount("http://", Adapter())
        return [session.get(url).status_code for _ in range(n)]


SENDERS = [by_httpx, *(pytest.param(f, marks=pytest.mark.slow) for f in (by_requests, by_httpx_async))]


@pytest.fixture(scope="module")
def limited() -> Any:
    server = Server()
    app = App("starlette", HEADGATE=server.addr, UNITS="10", PERIOD="1", LEASES="0")
    yield app
    app.stop()
    server.stop()


@pytest.mark.parametrize("how", SENDERS)
def test_nothing_is_denied(how: Callable[[str, int], list[int]], limited: App) -> None:
    """Twice as many requests as the limit has, at its own pace: none is denied."""
    time.sleep(1)  # the limit is full again
    began = time.monotonic()
    assert how(f"http://127.0.0.1:{limited.port}/", 20) == [200] * 20
    assert 0.9 < time.monotonic() - began < 15
