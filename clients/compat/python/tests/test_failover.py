"""Clients of Redis Cluster and of Sentinel, and plain clients at a load balancer, when the leader is killed.

They start with the nodes' addresses for plain clients. Without retries, and with the failure policy closed, nothing is
decided without a leader: whoever gets a decision of a group after the kill has found its new leader.
"""

import asyncio
import os
import threading
import time

import pytest
import redis
import redis.asyncio
from redis.backoff import ConstantBackoff, NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from conftest import need
from servers import Cluster

LIMIT = 1_000_000
LIMITED = [LIMIT, "1d", "ALGORITHM", "fixed", "ALIGN", "first"]  # no refill meanwhile
BEFORE, AFTER = 20, 20  # decisions of each key
PATIENCE = 20  # seconds without a decision
MAX_UNACKED = 0.25  # seconds, the default of max-unacked

# Hash tags of keys, one for each group of a cluster of twelve.
TAGS = "10 11 12 13 20 21 22 23 40 41 42 43".split()

# Without HGTEST_GROUPS only clients of Redis Cluster run: the Go suite has all kinds.
grouped = pytest.mark.skipif(not os.environ.get("HGTEST_GROUPS"), reason="HGTEST_GROUPS is not set")

# A retry of the client's own could count a call twice.
ONCE = Retry(NoBackoff(), 0)


def start(*args):
    cluster = Cluster(need("HGTEST_CLUSTER"), *args)
    cluster.balancer = cluster.balance()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def cluster():
    yield from start("--durability", "sync")


@pytest.fixture(scope="module")
def default_cluster():
    """A cluster with the default durability and failure policy."""
    yield from start("--on-failure", "default")


# Retries that outlast an election. The cluster client repeats at once, without its backoff.
PATIENT = Retry(ConstantBackoff(0.1), 30)
AT_ONCE = Retry(NoBackoff(), 1000)


def clustered(cluster, protocol, retries=False):
    client = RedisCluster(
        startup_nodes=[ClusterNode(at.host, at.port) for at in cluster.nodes],
        protocol=protocol, retry=AT_ONCE if retries else ONCE, socket_timeout=2,
    )
    return client, client.close


def sentinel(cluster, protocol, retries=False):
    # Its default retries spend seconds on a dead node before they ask the next.
    asking = {"socket_timeout": 0.5, "retry": ONCE}
    s = Sentinel([(at.host, at.port) for at in cluster.nodes], sentinel_kwargs=asking)
    client = s.master_for("headgate", protocol=protocol, socket_timeout=2, retry=PATIENT if retries else ONCE)
    return client, client.close


def plain(cluster, protocol, retries=False):
    at = cluster.balancer
    # By default it retries ten times.
    client = redis.Redis(at.host, at.port, protocol=protocol, socket_timeout=2, **({} if retries else {"retry": ONCE}))
    return client, client.close


def remaining(reply):
    return reply[2] if isinstance(reply, list) else reply[b"remaining"]


class Key:
    def __init__(self, name):
        self.name, self.admitted, self.failed = name, 0, 0


class Load:
    """Charges a key of each group until it is stopped, and counts what it was told."""

    def __init__(self, call, prefix):
        self.call, self.last, self.longest, self.stopped = call, None, 0, False
        self.keys = [Key(f"{prefix}{{{tag}}}") for tag in TAGS]
        self.threads = [threading.Thread(target=self.run, args=[key]) for key in self.keys]
        for thread in self.threads:
            thread.start()

    def run(self, key):
        while not self.stopped:
            began = time.monotonic()
            try:
                reply = self.call("RL.LIMIT", key.name, *LIMITED)
            except (redis.RedisError, RedisClusterException) as error:
                key.failed += 1
                self.last = f"{key.name}: {error!r} after {time.monotonic() - began:.3f} s"
                time.sleep(0.01)
            else:
                assert reply[0] == 1 if isinstance(reply, list) else reply[b"allowed"] == 1
                key.admitted += 1
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.005)  # leaves processors to the nodes

    @property
    def admitted(self):
        return sum(key.admitted for key in self.keys)

    @property
    def failed(self):
        return sum(key.failed for key in self.keys)

    def reach(self, more):
        """Waits until so many more calls of each key have been admitted."""
        goals = [(key, key.admitted + more) for key in self.keys]
        for key, goal in goals:
            deadline = time.monotonic() + PATIENCE
            while key.admitted < goal:
                assert all(thread.is_alive() for thread in self.threads), "the load has ended"
                assert time.monotonic() < deadline, f"no decision: {self.last}"
                time.sleep(0.005)

    def stop(self):
        self.stopped = True
        for thread in self.threads:
            thread.join(PATIENCE)

    def used(self, key):
        """What the leader has charged to a key. PEEK would count the call itself."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return LIMIT - remaining(self.call("RL.LIMIT", key.name, *LIMITED, "COST", 0, "FAIL", "CLOSED"))
            except redis.RedisError:
                assert time.monotonic() < deadline
                time.sleep(0.1)


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


@pytest.mark.parametrize("connect,protocol", [
    (clustered, 2), (clustered, 3), pytest.param(sentinel, 3, marks=grouped), pytest.param(plain, 3, marks=grouped),
])
def test_leader_killed_under_load(cluster, new_key, connect, protocol):
    client, close = connect(cluster, protocol)
    load = Load(client.execute_command, new_key())
    try:
        load.reach(BEFORE)
        killed = cluster.kill_leader()
        load.reach(2 + AFTER)  # of two, one may have been under way and one be lost
    finally:
        load.stop()
    assert cluster.leader() != killed
    assert load.failed > 0, "a call met the dead leader"
    for key in load.keys:
        used = load.used(key)
        assert key.admitted <= used <= key.admitted + key.failed, "nothing is forgotten, and nothing counted twice"
    close()
    cluster.restart()


@grouped
@pytest.mark.parametrize("connect", [
    clustered, plain,
    # A retry on a broken connection does not ask the sentinels again: https://github.com/redis/redis-py/issues/3874
    pytest.param(sentinel, marks=pytest.mark.xfail(reason="redis-py #3874", strict=True)),
])
def test_no_error_when_leader_killed(default_cluster, new_key, connect):
    """With redis-py's retries and the default failure policy, callers see no error."""
    cluster = default_cluster
    client, close = connect(cluster, 3, retries=True)
    degraded = cluster.degraded()
    load = Load(client.execute_command, new_key())
    try:
        load.reach(BEFORE)
        before = load.admitted
        time.sleep(MAX_UNACKED)
        cluster.kill_leader()
        lost = load.admitted - before  # at most: what was admitted during max-unacked
        cluster.leader()
        load.reach(AFTER)
        cluster.restart()
        load.reach(AFTER)
    finally:
        load.stop()
    print(f"{connect.__name__}: {load.admitted} calls, the longest took {load.longest:.3f} s, {load.failed} failed")
    assert load.failed == 0, load.last
    # Each key may have had a call under way that the client repeated, and one that the dead node decided by its
    # failure policy.
    twice = cluster.degraded() - degraded + 2 * len(TAGS)
    deadline = time.monotonic() + 3 * PATIENCE
    while not load.admitted - lost <= (used := sum(load.used(key) for key in load.keys)) <= load.admitted + twice:
        assert time.monotonic() < deadline, f"{load.admitted} admitted, {used} used, {lost} may be lost, {twice} be counted twice"
        time.sleep(0.1)
    close()


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
        used = LIMIT - (await client.execute_command(*charge, "COST", 0))[b"remaining"]
        assert admitted <= used <= admitted + failed
        assert cluster.leader() != await killing
        await client.aclose()

    asyncio.run(run())
    cluster.restart()
