"""Puts clients of the server under test in the place of fakeredis.

The tests of throttled-py run on an imitation of Redis; with this plugin the
same names are of clients that talk to a server.
"""

import os
import sys
import types

import redis
import redis.asyncio

HOST, PORT = os.environ["DROPIN_HOST"], int(os.environ["DROPIN_PORT"])


def connection(base):
    class Connection(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **{**kwargs, "host": HOST, "port": PORT})

    return Connection


def client(base):
    class Client(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **({} if kwargs.get("connection_pool") else {"host": HOST, "port": PORT}), **kwargs)

    return Client


fake = types.ModuleType("fakeredis")
fake.FakeRedis, fake.FakeConnection = client(redis.Redis), connection(redis.Connection)
fake.aioredis = types.ModuleType("fakeredis.aioredis")
fake.aioredis.FakeRedis, fake.aioredis.FakeConnection = client(redis.asyncio.Redis), connection(redis.asyncio.Connection)
sys.modules["fakeredis"], sys.modules["fakeredis.aioredis"] = fake, fake.aioredis
