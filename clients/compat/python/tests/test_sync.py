"""What the synchronous client offers of its own."""

import concurrent.futures
import dataclasses

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

# Failures that no retry can help are not worth its seconds.
ONCE = Retry(NoBackoff(), 0)

protocols = pytest.mark.parametrize("protocol", [2, 3])


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, plain):
    with redis.Redis(**plain.options(), protocol=request.param, decode_responses=True) as client:
        yield client


def test_transaction(client, new_key):
    key = new_key()
    charge = ["CL.THROTTLE", key, 4, 5, 3600]
    with client.pipeline() as pipe:
        pipe.execute_command(*charge).increx(key).execute_command(*charge)
        first, failed, second = pipe.execute(raise_on_error=False)
    assert first == [0, 5, 4, -1, 720]
    assert isinstance(failed, redis.ResponseError) and str(failed).startswith("WRONGTYPE")
    assert second == [0, 5, 3, -1, 1440]

    with client.pipeline() as pipe:
        pipe.execute_command(*charge).execute_command("CL.THROTTLE", key)
        with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
            pipe.execute()
    assert client.execute_command(*charge, 0)[2] == 3, "an aborted transaction runs nothing"


def test_watch(client, new_key):
    key = new_key()
    with client.pipeline() as pipe:
        pipe.watch(key)
        client.execute_command("RL.LIMIT", key, 10, "1d")  # on another connection
        pipe.multi()
        pipe.execute_command("RL.LIMIT", key, 10, "1d")
        with pytest.raises(redis.WatchError):
            pipe.execute()


def test_publish_and_subscribe(client, new_key):
    channel = new_key()
    with client.pubsub() as sub:
        sub.subscribe(channel)
        sub.psubscribe(f"{channel}:*")
        assert sub.get_message(timeout=5)["type"] == "subscribe"
        assert sub.get_message(timeout=5)["type"] == "psubscribe"
        assert client.publish(channel, "one") == 1
        assert client.publish(f"{channel}:x", "two") == 1
        assert sub.get_message(timeout=5) == {
            "type": "message", "pattern": None, "channel": channel, "data": "one",
        }
        assert sub.get_message(timeout=5) == {
            "type": "pmessage", "pattern": f"{channel}:*", "channel": f"{channel}:x", "data": "two",
        }
        if client.get_connection_kwargs()["protocol"] == 2:  # redis-py takes a RESP3 PONG apart, with Redis as well
            sub.ping()
            assert sub.get_message(timeout=5)["type"] == "pong"
        sub.unsubscribe(channel)
        assert sub.get_message(timeout=5)["type"] == "unsubscribe"


def test_sharded_channels(client, new_key):
    channel = new_key()
    with client.pubsub() as sub:
        sub.ssubscribe(channel)
        assert sub.get_message(timeout=5)["type"] == "ssubscribe"
        assert client.spublish(channel, "one") == 1
        assert sub.get_message(timeout=5) == {
            "type": "smessage", "pattern": None, "channel": channel, "data": "one",
        }
        assert client.pubsub_shardchannels(channel) == [channel]
        assert client.pubsub_shardnumsub(channel) == [(channel, 1)]
        assert client.pubsub_numsub(channel) == [(channel, 0)]
        sub.sunsubscribe(channel)
        assert sub.get_message(timeout=5)["type"] == "sunsubscribe"


def test_scan_iter(client, new_key):
    prefix = new_key()
    want = {f"{prefix}:{i}" for i in range(500)}
    with client.pipeline(transaction=False) as pipe:
        for key in want:
            pipe.execute_command("RL.LIMIT", key, 10, "1d")
        pipe.execute()
    assert set(client.scan_iter(f"{prefix}:*", count=50)) == want
    assert set(client.scan_iter(f"{prefix}:*", _type="string")) == set()
    assert client.unlink(*want) == 500


def test_commands_of_its_own(client, new_key):
    key = new_key()
    assert client.increx(key, byint=3, ubound=5, ex=60, enx=True) == [3, 3]
    assert client.increx(key, byint=3, ubound=5, ex=60, enx=True) == [3, 0]
    half = client.increx(new_key(), byfloat=0.5, ubound=1)
    assert [float(value) for value in half] == [0.5, 0.5]
    assert (client.exists(key), client.type(key), client.ttl(key)) == (1, "string", 60)
    assert client.dbsize() > 0
    assert client.info("server")["redis_version"]
    assert client.client_setname("own") and client.client_getname() == "own"
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "evict-replenished"}
    assert len(client.time()) == 2


@protocols
def test_50_threads_on_one_key(plain, protocol, new_key):
    key, limit = new_key(), 123
    pool = redis.BlockingConnectionPool(**plain.options(), protocol=protocol, max_connections=10)
    with redis.Redis(connection_pool=pool) as client, concurrent.futures.ThreadPoolExecutor(50) as threads:

        def task(_):
            return sum(client.execute_command("CL.THROTTLE", key, limit - 1, 1, 86400)[0] == 0 for _ in range(10))

        assert sum(threads.map(task, range(50))) == limit
    pool.disconnect()


@protocols
def test_authentication(auth, protocol):
    for password, error in [("wrong", "invalid username-password pair"), (None, "Authentication required|already authenticated")]:
        bad = dataclasses.replace(auth, password=password)
        with redis.Redis(**bad.options(), protocol=protocol, retry=ONCE) as client, pytest.raises(redis.AuthenticationError, match=error):
            client.ping()


def test_an_unknown_authority(tls):
    options = tls.options()
    del options["ssl_ca_certs"]
    with redis.Redis(**options, retry=ONCE) as client, pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        client.ping()
