"""What an application gets through either client, in either protocol and over
any transport."""

import time

import pytest
import redis

from adapters import Async, Sync
from conftest import endpoint

DECISION = ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"]
SLOTS = ["allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms"]

libraries = pytest.mark.parametrize("library", [Sync, Async])
protocols = pytest.mark.parametrize("protocol", [2, 3])


@pytest.fixture(scope="module", params=["plain", "auth", "tls"])
def at(request):
    return endpoint(request.param)


@pytest.fixture(scope="module", params=[(Sync, 2), (Sync, 3), (Async, 2), (Async, 3)], ids=lambda p: f"{p[0].__name__}-resp{p[1]}")
def client(request, at):
    library, protocol = request.param
    client = library(at, protocol)
    client.protocol = protocol
    yield client
    client.close()


def named(client, reply, names):
    """Names the values of a reply, and checks that it is an array in RESP2 and
    a map in RESP3."""
    if client.protocol == 3:
        assert isinstance(reply, dict)
        assert list(reply) == names
        return reply
    assert isinstance(reply, list)
    return dict(zip(names, reply, strict=True))


def test_handshake(client):
    info = dict(field.split("=", 1) for field in client.run("CLIENT", "INFO").split())
    assert info["resp"] == str(client.protocol)
    assert info["lib-name"].startswith("redis-py")
    assert info["lib-ver"] == redis.__version__
    assert client.run("PING")


def test_cl_throttle(client, new_key):
    """The vectors of redis-cell: its README's, its unit test's at t = 0, and a
    burst taken to its end."""
    assert client.run("CL.THROTTLE", new_key(), 15, 30, 60) == [0, 16, 15, -1, 2]

    one = ["CL.THROTTLE", new_key(), 4, 1, 1]
    assert client.pipeline([[*one, 6]] + [one] * 6) == [
        [1, 5, 5, -1, 0],
        *([0, 5, 4 - i, -1, i + 1] for i in range(5)),
        [1, 5, 0, 1, 5],
    ]

    key = new_key()
    for left in range(15, -1, -1):
        assert client.run("CL.THROTTLE", key, 15, 30, 3600)[:4] == [0, 16, left, -1]
    denied = client.run("CL.THROTTLE", key, 15, 30, 3600)
    assert denied[:3] == [1, 16, 0]
    assert denied[3] == pytest.approx(120, abs=5)
    assert denied[4] == pytest.approx(16 * 120, abs=5)


def test_limit(client, new_key):
    key = new_key()

    def limit(*options):
        return named(client, client.run("RL.LIMIT", key, 10, "1d", *options), DECISION)

    assert limit() == {
        "allowed": 1, "limit": 10, "remaining": 9, "retry_after_ms": 0, "reset_after_ms": 8640000, "delay_ms": 0,
    }
    assert limit("PEEK")["remaining"] == 8, "what the call would get"
    assert limit("COST", 0)["remaining"] == 9, "a peek takes nothing"
    assert limit("COST", 8)["remaining"] == 1
    denied = limit("COST", 2)
    assert denied["allowed"] == 0
    assert denied["remaining"] == 1, "what is denied takes nothing"
    assert denied["retry_after_ms"] == pytest.approx(8640000, abs=5000)
    assert limit("COST", 11)["retry_after_ms"] == -1, "no wait helps a cost above capacity"
    assert limit("COST", -2)["remaining"] == 3, "a refund"


def test_chain(client, new_key):
    hour, day = new_key(), new_key()

    def chain():
        reply = client.run("RL.LIMIT", hour, 2, "1h", "AND", day, 100, "1d", "COST", 10)
        return named(client, reply, [*DECISION, "limits"])

    for left in (1, 0):
        admitted = chain()
        assert admitted["allowed"] == 1
        assert admitted["remaining"] == left, "the first has the least remaining"
    denied = chain()
    assert denied["allowed"] == 0
    assert denied["limit"] == 2, "the limit that denied"
    assert [named(client, each, DECISION)["remaining"] for each in denied["limits"]] == [0, 80]
    left = named(client, client.run("RL.LIMIT", day, 100, "1d", "COST", 0), DECISION)
    assert left["remaining"] == 80, "all or none"


def test_gcra(client, new_key):
    key = new_key()
    assert client.run("GCRA", key, 4, 5, 3600) == [0, 5, 4, -1, 720]
    assert client.run("GCRA", key, 4, 5, 3600, "TOKENS", 4) == [0, 5, 0, -1, 3600]
    assert client.run("GCRA", key, 4, 5, 3600) == [1, 5, 0, 720, 3600]


def test_increx(client, new_key):
    key = new_key()
    twice = ["INCREX", key, "BYINT", 2, "UBOUND", 5, "EX", 60, "ENX"]
    assert client.run(*twice) == [2, 2]
    assert client.run(*twice) == [4, 2]
    assert client.run(*twice) == [4, 0], "out of bounds changes nothing"
    assert client.run(*twice, "SATURATE") == [5, 1]
    assert client.run("TTL", key) == pytest.approx(60, abs=2)


def test_slots(client, new_key):
    key = new_key()

    def acquire(*options):
        return named(client, client.run("RL.ACQUIRE", key, 2, 60, *options), SLOTS)

    first = acquire()
    assert (first["allowed"], first["remaining"], first["ttl_ms"]) == (1, 1, 60000)
    assert len(first["id"]) == 32
    assert acquire("ID", "mine")["remaining"] == 0
    assert acquire("ID", "mine")["allowed"] == 1, "the same id renews"
    full = acquire()
    assert full["allowed"] == 0
    assert full["id"] is None
    assert full["retry_after_ms"] == pytest.approx(60000, abs=5000)
    assert client.run("RL.EXTEND", key, "mine", "2m") == 1
    assert client.run("RL.RELEASE", key, first["id"]) == 1
    assert client.run("RL.RELEASE", key, first["id"]) == 0, "released already"
    assert acquire()["allowed"] == 1


def test_errors(client, new_key):
    key = new_key()
    limit = ["RL.LIMIT", key, 10, 60]
    client.run(*limit)
    for command, text in [
        (["INCREX", key], "WRONGTYPE "),
        ([*limit, "ALGORITHM", "fixed"], "WRONGTYPE "),
        # redis-py leaves out the ERR of a generic error.
        ([*limit, "NONSENSE"], "syntax error"),
        ([*limit, "AND", key, 1, 1], "duplicate key"),
        (["CL.THROTTLE", new_key(), "many", 30, 60], "value is not an integer"),
        (["CL.THROTTLE", new_key()], "wrong number of arguments"),
        (["NOSUCHCOMMAND", "a"], "unknown command 'NOSUCHCOMMAND'"),
    ]:
        with pytest.raises(redis.ResponseError) as caught:
            client.run(*command)
        assert str(caught.value).startswith(text)
    left = named(client, client.run(*limit), DECISION)["remaining"]
    assert left == 8, "errors charge nothing"


def test_keyspace(client, new_key):
    bucket, counter, none = new_key(), new_key(), new_key()
    client.run("RL.LIMIT", bucket, 10, 600)
    client.run("INCREX", counter)
    assert client.run("EXISTS", bucket, counter, none) == 2
    assert [client.run("TYPE", key) for key in (bucket, counter, none)] == ["token", "string", "none"]
    assert client.run("TTL", bucket) == pytest.approx(60, abs=2)
    assert client.run("TTL", counter) == -1
    assert client.run("TTL", none) == -2
    assert client.run("DEL", bucket, counter, none) == 2
    assert client.run("EXISTS", bucket) == 0


def test_pipeline_of_1000_in_order(client, new_key):
    n, key = 500, new_key()
    commands = []
    for i in range(n):
        commands += [["CL.THROTTLE", key, n - 1, n, 86400], ["ECHO", str(i)]]
    replies = client.pipeline(commands)
    assert len(replies) == 2 * n
    for i in range(n):
        assert replies[2 * i][:3] == [0, n, n - 1 - i]
        assert replies[2 * i + 1] == str(i)


@libraries
@protocols
def test_reconnect_after_a_crash(library, protocol, server, new_key):
    client = library(server.endpoint, protocol)
    client.protocol = protocol
    key = new_key()

    def limit():
        return named(client, client.run("RL.LIMIT", key, 3, "1d"), DECISION)["remaining"]

    assert [limit(), limit()] == [2, 1]
    server.kill()
    server.start()
    left, deadline = None, time.monotonic() + 10
    while left is None:
        try:
            left = limit()
        except redis.ConnectionError:
            assert time.monotonic() < deadline
    assert left == 2, "the restarted server has no state"
    client.close()
