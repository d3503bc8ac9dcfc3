"""A contract through fastapi-limiter, whose package has no tests."""

import asyncio
import os

import pytest
import redis.asyncio as redis
from fastapi import Depends, FastAPI
from fastapi_limiter import FastAPILimiter
from fastapi_limiter.depends import RateLimiter
from httpx import ASGITransport, AsyncClient

URL = f"redis://{os.environ['DROPIN_HOST']}:{os.environ['DROPIN_PORT']}"


def application():
    app = FastAPI()

    @app.get("/", dependencies=[Depends(RateLimiter(times=2, milliseconds=800))])
    async def index():
        return {"fine": True}

    @app.get("/both", dependencies=[Depends(RateLimiter(times=1, milliseconds=500)), Depends(RateLimiter(times=3, seconds=15))])
    async def both():
        return {"fine": True}

    return app


@pytest.fixture
async def ask():
    connection = redis.from_url(URL, encoding="utf8")
    await connection.flushall()
    await FastAPILimiter.init(connection)
    async with AsyncClient(transport=ASGITransport(app=application()), base_url="http://test") as client:
        yield client.get
    await FastAPILimiter.close()


async def test_third_is_denied(ask):
    assert [(await ask("/")).status_code for _ in range(4)] == [200, 200, 429, 429]
    assert int((await ask("/")).headers["retry-after"]) == 1


async def test_window_ends(ask):
    for _ in range(3):
        await ask("/")
    await asyncio.sleep(0.9)
    assert (await ask("/")).status_code == 200


async def test_two_limits(ask):
    statuses = []
    for _ in range(4):
        statuses.append((await ask("/both")).status_code)
        statuses.append((await ask("/both")).status_code)
        await asyncio.sleep(0.55)
    assert statuses[:4] == [200, 429, 200, 429]
    assert statuses[-1] == 429, "three in fifteen seconds"


async def test_many_at_once(ask):
    answers = await asyncio.gather(*(ask("/") for _ in range(20)))
    assert sum(a.status_code == 200 for a in answers) == 2
