"""The recipes of docs/howto on three nodes: the process that runs it is killed in the
middle, and then the leader."""

import itertools
import subprocess
import sys
import threading
import time

import pytest
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ClusterDownError

import recipes
from conftest import need
from recipes import billing, chunks, exports, large_call, llm, login
from servers import Cluster

PATIENCE = 20  # seconds


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(need("HGTEST_CLUSTER"))
    yield cluster
    cluster.stop()


@pytest.fixture
def r(cluster):
    client = recipes.connect.connect(*((at.host, at.port) for at in cluster.nodes))
    yield client
    client.close()


def load(r, **replaced):
    """Loads the policies, with the time to live of some replaced."""
    files = ""
    for name in ("llm", "login", "billing", "exports"):
        text = (recipes.EXAMPLES / f"{name}.yaml").read_text().split("policies:\n")[1]
        if name in replaced:
            assert text.count(f"ttl: {replaced[name]}") == 1
            text = text.replace(f"ttl: {replaced[name]}", "ttl: 2s")
        files += text
    r.execute_command("RL.POLICY", "LOAD", "policies:\n" + files)


def asked(r, *command):
    """The reply to a command that changes nothing, whoever of the nodes leads by then."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return r.execute_command(*command)
        except ClusterDownError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def left(r, limit, *check):
    """What is left of a limit."""
    reply = asked(r, "RL.CHECK", *check, "COST", 0)
    return next(each[3] for each in reply[11] if each[0] == limit)


def large(r, key):
    return left(r, "large", "llm", "key", key, "model", "large-2", "tokens", 0)


def of_exports(r, limit, tenant):
    return left(r, limit, "exports", "tenant", tenant)


def eventually(so):
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end, "too late"
        time.sleep(0.02)


def ends(r, hold):
    """Waits until a hold has ended by itself."""
    eventually(lambda: asked(r, "RL.EXPLAIN", "HOLD", hold)[5] == "expired")


@pytest.fixture
def child(cluster):
    """Starts processes that run a recipe for somebody, and say in lines what they hold, or are about to charge."""
    started = []

    def start(recipe, who):
        nodes = [f"{at.host}:{at.port}" for at in cluster.nodes]
        own = subprocess.Popen([sys.executable, recipes.__file__, recipe, who, *nodes], stdout=subprocess.PIPE, text=True)
        started.append(own)
        return own

    yield start
    for own in started:
        own.kill()
        own.wait()


def test_a_client_is_killed(r, new_key, child):
    load(r, llm="5m", login="30s", exports="1m")
    key, user, account, tenant = new_key(), new_key(), new_key(), new_key()
    streaming = child("llm", key)
    hold = streaming.stdout.readline().strip()
    assert large(r, key) < 20_000, "15,000 of 30,000 are held, and 500 a second come back"
    streaming.kill()
    killed = time.monotonic()
    verifying, charging, exporting = child("login", user), child("billing", account), child("exports", tenant)

    # While it charges orders: who takes them over charges none twice.
    orders = [charging.stdout.readline().strip() for _ in range(25)]
    charging.kill()
    orders += [line.strip() for line in charging.stdout]
    assert all(orders)
    for order in orders:
        assert billing.charge(r, account, order, 3)
    assert left(r, "account", "billing", "account", account) == 10_000 - 3 * len(orders)

    # While it verifies a password: that is no success.
    attempt = verifying.stdout.readline().strip()
    verifying.kill()
    # In the middle of an answer: what it held is given back.
    ends(r, hold)
    assert large(r, key) == 30_000
    assert left(r, "tokens", "llm", "key", key, "tokens", 0) == 90_000
    assert time.monotonic() - killed < 15, "or time gave them back"
    ends(r, attempt)
    assert left(r, "user", "login", "user", user, "ip", "198.51.100.7") == 4

    # In the middle of an export: its slot ends, and the job is not charged again.
    assert exporting.stdout.readline() == "runs\n"
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert of_exports(r, "running", tenant) == 1, "it is renewed"
        time.sleep(0.05)
    exporting.kill()
    eventually(lambda: of_exports(r, "running", tenant) == 2)
    assert of_exports(r, "day", tenant) == 19
    assert exports.run(r, tenant, f"{tenant}-job", 2, lambda lost: of_exports(r, "running", tenant)) == 1
    assert of_exports(r, "running", tenant) == 2
    assert of_exports(r, "day", tenant) == 19


def test_tokens_are_refused(r, new_key):
    load(r)
    key, begin = new_key(), time.monotonic()
    assert len(list(large_call(r, key, chunks(9)))) == 10
    list(large_call(r, key, chunks(9)))
    shared = left(r, "tokens", "llm", "key", key, "model", "small-1", "tokens", 0)
    assert shared <= 60_001 + 1_500 * (time.monotonic() - begin), "all models of a key share its tokens"
    with pytest.raises(llm.LimitedError, match="over large") as limited:
        list(large_call(r, key, chunks(9)))
    assert limited.value.retry_ms > 0
    with pytest.raises(llm.LimitedError) as limited:
        list(llm.stream(r, key, "large-2", 5_000, 11_000, chunks(9)))
    assert limited.value.retry_ms == -1, "more than half of the limit"


def broken():
    yield "word ", 6_000
    raise RuntimeError("broken")


def test_a_reader_goes_away_or_the_answer_breaks(r, new_key):
    load(r)
    key = new_key()
    reading = large_call(r, key, chunks(9))
    next(reading)
    reading.close()
    assert 24_000 <= large(r, key) <= 25_000
    key = new_key()
    with pytest.raises(RuntimeError, match="broken"):
        list(large_call(r, key, broken()))
    assert 24_000 <= large(r, key) <= 25_000


def test_logins_are_refused(r, new_key):
    load(r)
    user = new_key()
    for _ in range(8):
        assert login.attempt(r, user, "198.51.100.8", lambda: True)
    for _ in range(5):
        assert not login.attempt(r, user, "198.51.100.8", lambda: False)
    for minutes in (15, 15, 60, 60):
        with pytest.raises(login.LimitedError) as limited:
            login.attempt(r, user, "198.51.100.8", lambda: True)
        assert (minutes - 1) * 60_000 < limited.value.retry_ms <= minutes * 60_000
    r.execute_command("RL.POLICY", "RESET", "login", "user", user)
    assert login.attempt(r, user, "198.51.100.8", lambda: True)


def test_orders_are_refused(r, new_key):
    load(r)
    account = new_key()
    assert billing.charge(r, account, f"{account}-1", 9_999)
    assert not billing.charge(r, account, f"{account}-2", 2)
    with pytest.raises(Exception, match="IDCONFLICT"):
        billing.charge(r, account, f"{account}-1", 1)


def test_exports_are_refused(r, new_key):
    load(r)
    tenant = new_key()

    def run(job, export):
        return exports.run(r, tenant, job, 0.4, export)

    def second(lost):
        with pytest.raises(exports.LimitedError, match="over running") as limited:
            run("3", None)
        assert limited.value.retry_ms > 0
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run("1", lambda lost: run("2", second))
    assert of_exports(r, "running", tenant) == 2

    def lose(lost):  # who loses the slot is told
        jobs = iter(range(10, 100))
        while not lost.wait(0.2):  # more often, if it is renewed in between
            r.execute_command("RL.POLICY", "RESET", "exports", "tenant", tenant)
            for _ in range(2):
                r.execute_command("RL.CHECK", "exports", "tenant", tenant, "ID", next(jobs))

    run("4", lose)


def test_policies_by_the_cluster_client(cluster, r, new_key):
    load(r)
    account = new_key()
    with RedisCluster(startup_nodes=[ClusterNode(at.host, at.port) for at in cluster.nodes], protocol=2) as rc:
        for units in (1, 2, 3):
            rc.execute_command("RL.CHECK", "billing", "account", account, "COST", units, target_nodes=rc.get_random_node())
    assert left(r, "account", "billing", "account", account) == 9_994


def test_the_leader_is_killed_between_hold_and_settlement_and_between_charge_and_answer(r, cluster, new_key):
    load(r)
    key, account = new_key(), new_key()
    charged, stopped = itertools.count(), threading.Event()
    orders = []

    def charging():
        while not stopped.is_set():
            order = f"{account}-{next(charged)}"
            assert billing.charge(r, account, order, 3)
            orders.append(order)

    def after():
        eventually(lambda: len(orders) >= 25)
        r.execute_command("WAIT", 1, 5000)  # the holds are on another node
        cluster.kill_leader()

    thread = threading.Thread(target=charging)
    thread.start()
    try:
        begin = time.monotonic()
        exports.run(r, key, "job", 60, lambda lost: list(large_call(r, key, chunks(3, after))))
        now = large(r, key)
        assert 21_000 <= now <= 21_500 + 500 * (time.monotonic() - begin), "9000 are charged"
        assert of_exports(r, "running", key) == 2, "its slot is free"
        assert of_exports(r, "day", key) == 19
        before = len(orders)
        eventually(lambda: len(orders) >= before + 25)
    finally:
        stopped.set()
        thread.join(PATIENCE)
    assert left(r, "account", "billing", "account", account) == 10_000 - 3 * len(orders), "each once"
