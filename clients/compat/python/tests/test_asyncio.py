"""What the asyncio client offers of its own."""

import asyncio
import dataclasses

import pytest
import pytest_asyncio
import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

# Failures that no retry can help are not worth its seconds.
ONCE = Retry(NoBackoff(), 0)

protocols = pytest.mark.parametrize("protocol", [2, 3])


@pytest_asyncio.fixture(params=[2, 3], ids=["resp2", "resp3"])
async def client(request, plain):
    async with redis.asyncio.Redis(**plain.options(), protocol=request.param, decode_responses=True) as client:
        yield client


async def test_transaction(client, new_key):
    key = new_key()
    charge = ["CL.THROTTLE", key, 4, 5, 3600]
    async with client.pipeline() as pipe:
        pipe.execute_command(*charge).increx(key).execute_command(*charge)
        first, failed, second = await pipe.execute(raise_on_error=False)
    assert first == [0, 5, 4, -1, 720]
    assert isinstance(failed, redis.ResponseError) and str(failed).startswith("WRONGTYPE")
    assert second == [0, 5, 3, -1, 1440]

    async with client.pipeline() as pipe:
        await pipe.watch(key)
        await client.execute_command(*charge)  # on another connection
        pipe.multi()
        pipe.execute_command(*charge)
        with pytest.raises(redis.WatchError):
            await pipe.execute()


async def test_publish_and_subscribe(client, new_key):
    channel = new_key()
    async with client.pubsub() as sub:
        await sub.subscribe(channel)
        assert (await sub.get_message(timeout=5))["type"] == "subscribe"
        assert await client.publish(channel, "hello") == 1
        assert await sub.get_message(timeout=5) == {
            "type": "message", "pattern": None, "channel": channel, "data": "hello",
        }
        await sub.unsubscribe(channel)
        assert (await sub.get_message(timeout=5))["type"] == "unsubscribe"


async def test_scan_iter(client, new_key):
    prefix = new_key()
    want = {f"{prefix}:{i}" for i in range(500)}
    async with client.pipeline(transaction=False) as pipe:
        for key in want:
            pipe.execute_command("RL.LIMIT", key, 10, "1d")
        await pipe.execute()
    assert {key async for key in client.scan_iter(f"{prefix}:*", count=50)} == want


async def test_commands_of_its_own(client, new_key):
    key = new_key()
    assert await client.increx(key, byint=3, ubound=5, ex=60, enx=True) == [3, 3]
    assert await client.increx(key, byint=3, ubound=5, ex=60, enx=True) == [3, 0]
    assert (await client.exists(key), await client.type(key), await client.ttl(key)) == (1, "string", 60)


@protocols
async def test_50_tasks_on_one_key(plain, protocol, new_key):
    key, limit = new_key(), 123
    pool = redis.asyncio.BlockingConnectionPool(**plain.options(), protocol=protocol, max_connections=10)
    async with redis.asyncio.Redis(connection_pool=pool) as client:

        async def task():
            replies = [await client.execute_command("CL.THROTTLE", key, limit - 1, 1, 86400) for _ in range(10)]
            return sum(limited == 0 for limited, *_ in replies)

        assert sum(await asyncio.gather(*(task() for _ in range(50)))) == limit
    await pool.disconnect()


@protocols
async def test_authentication(auth, protocol):
    bad = dataclasses.replace(auth, password="wrong")
    async with redis.asyncio.Redis(**bad.options(), protocol=protocol, retry=ONCE) as client:
        with pytest.raises(redis.AuthenticationError):
            await client.ping()


async def test_an_unknown_authority(tls):
    options = tls.options()
    del options["ssl_ca_certs"]
    async with redis.asyncio.Redis(**options, retry=ONCE) as client:
        with pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.ping()
