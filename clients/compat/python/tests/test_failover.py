"""Clients of Redis Cluster and of Sentinel when the leader is killed under their load.

They start with the nodes' addresses for plain clients. Nothing is decided without a leader: whoever gets a
decision after the kill has found the new one.
"""

import asyncio
import threading
import time

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from conftest import need
from servers import Cluster

LIMIT = 1_000_000
LIMITED = [LIMIT, "1d", "ALGORITHM", "fixed", "ALIGN", "first"]  # no refill meanwhile
BEFORE, AFTER = 50, 50  # decisions
PATIENCE = 20  # seconds without a decision

# A retry of the client's own could count a call twice.
ONCE = Retry(NoBackoff(), 0)


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(need("HGTEST_CLUSTER"), "--durability", "sync")
    yield cluster
    cluster.stop()


def clustered(cluster, protocol):
    client = RedisCluster(
        startup_nodes=[ClusterNode(at.host, at.port) for at in cluster.nodes],
        protocol=protocol, retry=ONCE, socket_timeout=2,
    )
    return client, client.close


def sentinel(cluster, protocol):
    # Its default retries spend seconds on a dead node before they ask the next.
    asking = {"socket_timeout": 0.5, "retry": ONCE}
    s = Sentinel([(at.host, at.port) for at in cluster.nodes], sentinel_kwargs=asking)
    client = s.master_for("headgate", protocol=protocol, socket_timeout=2, retry=ONCE)
    return client, client.close


class Load:
    """Charges a key until it is stopped, and counts what it was told."""

    def __init__(self, call):
        self.call, self.admitted, self.failed, self.last, self.stopped = call, 0, 0, None, False
        self.error = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopped:
            try:
                reply = self.call()
            except (redis.RedisError, RedisClusterException) as error:
                self.failed += 1
                self.error = error
                time.sleep(0.01)
            else:
                assert reply[0] == 1 if isinstance(reply, list) else reply[b"allowed"] == 1
                self.admitted += 1

    def reach(self, admitted):
        deadline = time.monotonic() + PATIENCE
        while self.admitted < admitted:
            assert self.thread.is_alive(), "the load has ended"
            assert time.monotonic() < deadline, f"no decision: {self.error!r}"
            time.sleep(0.005)

    def stop(self):
        self.stopped = True
        self.thread.join(PATIENCE)


@pytest.mark.parametrize("protocol", [2, 3])
def test_sharded_channels(cluster, new_key, protocol):
    client, close = clustered(cluster, protocol)
    with client.pubsub() as sub:
        channels = [new_key() for _ in range(3)]  # of different slots
        sub.ssubscribe(*channels)
        for channel in channels:
            assert client.spublish(channel, "one") == 1
        heard = [sub.get_sharded_message(timeout=5) for _ in range(2 * len(channels))]
        assert {message["channel"].decode() for message in heard if message["type"] == "smessage"} == set(channels)
    close()


@pytest.mark.parametrize("connect,protocol", [(clustered, 2), (clustered, 3), (sentinel, 3)])
def test_leader_killed_under_load(cluster, new_key, connect, protocol):
    client, close = connect(cluster, protocol)
    key = new_key()
    charge = ["RL.LIMIT", key, *LIMITED]
    load = Load(lambda: client.execute_command(*charge))
    try:
        load.reach(BEFORE)
        killed = cluster.kill_leader()
        before = load.admitted
        load.reach(before + 2 + AFTER)  # one may have been under way, one be lost
    finally:
        load.stop()
    assert cluster.leader() != killed
    assert load.failed > 0, "a call met the dead leader"
    reply = client.execute_command(*charge, "PEEK")
    used = LIMIT - (reply[2] if isinstance(reply, list) else reply[b"remaining"])
    assert load.admitted <= used <= load.admitted + load.failed, "nothing is forgotten, and nothing counted twice"
    close()
    cluster.restart()


def test_asyncio_leader_killed_under_load(cluster, new_key):
    async def run():
        client = redis.asyncio.RedisCluster(
            startup_nodes=[redis.asyncio.cluster.ClusterNode(at.host, at.port) for at in cluster.nodes],
            protocol=3, retry=redis.asyncio.retry.Retry(NoBackoff(), 0), socket_timeout=2,
        )
        charge = ["RL.LIMIT", new_key(), *LIMITED]
        admitted = failed = 0
        killing = None
        deadline = time.monotonic() + PATIENCE
        goal = BEFORE
        while admitted < goal:
            try:
                await client.execute_command(*charge)
                admitted += 1
            except (redis.RedisError, RedisClusterException):
                failed += 1
                await asyncio.sleep(0.01)
            assert time.monotonic() < deadline, "no decision"
            if admitted == BEFORE and killing is None:
                killing = asyncio.create_task(asyncio.to_thread(cluster.kill_leader))
                goal = 10 * LIMIT
            if killing is not None and killing.done() and goal > LIMIT:
                goal = admitted + 2 + AFTER
        used = LIMIT - (await client.execute_command(*charge, "PEEK"))[b"remaining"]
        assert admitted <= used <= admitted + failed
        assert cluster.leader() != await killing
        await client.aclose()

    asyncio.run(run())
    cluster.restart()
