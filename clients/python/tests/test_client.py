"""Both clients, with real servers and with servers that misbehave."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from fake import Deaf, Fake, slow
from late import Late, waited
from server import Server

from headgate_client import (
    AsyncClient,
    Client,
    ClosedError,
    Decision,
    KeyLimit,
    Limit,
    Policy,
    ServerError,
    UnavailableError,
)

LIMIT = Limit(100, 60)
# What a call may take, beside what a busy machine adds.
SLOWEST = 0.06
ADMITTED = b"*6\r\n:1\r\n:100\r\n:99\r\n:0\r\n:600\r\n:0\r\n"


class Both:
    """A sync client, or an async one behind methods that block."""

    def __init__(self, kind: str, server: Any, **options: Any) -> None:
        self.loop = asyncio.new_event_loop() if kind == "async" else None
        self.client: Any = (AsyncClient if self.loop else Client)(server, **options)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = getattr(self.client, verb)
        if self.loop is None or not callable(method):
            return method  # type: ignore[no-any-return]

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return await result if hasattr(result, "__await__") else result

        loop = self.loop
        return lambda *args, **kwargs: loop.run_until_complete(call(*args, **kwargs))

    def sleep(self, seconds: float) -> None:
        if self.loop is None:
            time.sleep(seconds)
        else:
            self.loop.run_until_complete(asyncio.sleep(seconds))

    def do(self, method: Callable[..., Any], *args: Any) -> Any:
        result = method(*args)
        return self.loop.run_until_complete(result) if self.loop else result

    def end(self) -> None:
        self.close()
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str) -> Iterator[Callable[..., Both]]:
    made: list[Both] = []

    def make(server: Any, **options: Any) -> Both:
        made.append(Both(kind, server, **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_verbs(make: Callable[..., Both], server: Server) -> None:
    c = make(server.addr, timeout=1, leases=False)
    assert c.allow("a", LIMIT, 4) == Decision(True, 100, 96, reset_after=2.4)
    assert c.peek("a", LIMIT, 6).remaining == 90
    assert c.refund("a", LIMIT, 2).remaining == 98
    assert c.wait("a", LIMIT).allowed
    full = Limit(1, 0.2)
    assert c.allow("w", full).allowed
    began = time.monotonic()
    assert c.wait("w", full, at_most=1).allowed
    assert 0.15 < time.monotonic() - began < 0.4
    assert not c.wait("w", full, at_most=0.01).allowed
    assert c.all([KeyLimit("x", LIMIT), KeyLimit("y", Limit(5, 60), 2)]).limit == 5
    slot = c.acquire("slots", 1, 30)
    assert slot.allowed and not c.acquire("slots", 1, 30).allowed
    c.do(slot.release)
    assert c.acquire("slots", 1, 30).allowed
    c.reset("a")
    assert c.peek("a", LIMIT).remaining == 99
    with redis.Redis(port=server.port, retry=None) as r:
        r.execute_command("RL.POLICY", "SET", "pay", "{limits: {user: {by: user, rate: 5/m}, all: {rate: 1000/s}}}")
    d = c.check("pay", {"user": "eve", "plan": None}, 2)
    assert (d.name, d.reason, d.remaining, d.limits["all"].window) == ("user", "ok", 3, 1.0)
    held = c.reserve(Policy("pay"), {"user": "bob"}, 2, 30)
    assert held.allowed and held.decision.hold
    assert c.do(held.commit, 1).remaining == 4
    held = c.reserve("pay", {"user": "bob"}, 2)
    assert c.do(held.cancel).reason == "cancelled"
    with pytest.raises(ServerError, match="NOPOLICY"):
        c.check("pya", {"user": "eve"})


def test_arguments_are_checked(make: Callable[..., Both], server: Server) -> None:
    c = make(server.addr, timeout=1)
    for wrong in (-1, 1.5, True, 2**62, "1"):
        with pytest.raises(ValueError, match="cost is"):
            c.allow("k", LIMIT, wrong)
    with pytest.raises(TypeError, match="the key is"):
        c.allow(b"k", LIMIT)
    for name in ("cost", "User", ""):
        with pytest.raises(ValueError, match="attribute"):
            c.check("pay", {name: "x"})
    for units, period in ((-1, 1), (1, 0), (1, 0.0005), (1, 0.0015), (2**62, 1)):
        with pytest.raises(ValueError):
            Limit(units, period)
    with pytest.raises(ValueError, match="burst"):
        Limit(1, 1, "fixed", burst=2)


def slowest(c: Both, calls: int = 6) -> float:
    """Makes calls that the failure policy must answer, and returns the longest time of one, less
    what the machine was late."""
    longest = 0.0
    with Late() as late:
        for _ in range(calls):
            began, queued = time.monotonic(), waited()
            d = c.allow("k", LIMIT)
            longest = max(longest, time.monotonic() - began - max(waited() - queued, 0))
            assert (d.source, d.allowed, d.degraded, d.limit) == ("fallback", True, True, 100)
    assert c.client.state == "open"
    return longest - 3 * late.most


def test_hung_at_connect(make: Callable[..., Both]) -> None:
    deaf = Deaf()
    try:
        assert slowest(make(deaf.addr)) < SLOWEST
    finally:
        deaf.close()


@pytest.mark.parametrize("greet", [True, False], ids=["after the greeting", "before the greeting"])
def test_half_open(make: Callable[..., Both], greet: bool) -> None:
    fake = Fake(lambda command: None, greet)
    assert slowest(make(fake.addr)) < SLOWEST
    fake.close()


@pytest.mark.parametrize("seconds", [0.06, 0.3])
def test_answers_too_late(make: Callable[..., Both], seconds: float) -> None:
    """A late answer is not taken for that to another call."""
    fake = Fake(slow(seconds, ADMITTED))
    assert slowest(make(fake.addr)) < SLOWEST
    fake.close()


def test_slow_to_greet_is_no_outage(make: Callable[..., Both]) -> None:
    """A connection that takes longer than the timeout is made all the same."""
    fake = Fake(lambda c: HELLO_LATE() if c[0] in (b"HELLO", b"CLIENT") else ADMITTED, greet=False)

    def HELLO_LATE() -> bytes:
        time.sleep(0.08)
        return b"%1\r\n$5\r\nproto\r\n:3\r\n"

    c = make(fake.addr, timeout=0.1)
    assert c.allow("k", LIMIT).source == "fallback"
    c.sleep(0.5)
    assert c.allow("k", LIMIT).source == "server"
    fake.close()


def test_no_password(make: Callable[..., Both]) -> None:
    server = Server("--requirepass", "secret")
    try:
        assert slowest(make(server.addr)) < SLOWEST
        assert make(f"redis://:secret@{server.addr}", timeout=1).allow("k", LIMIT).source == "server"
        assert slowest(make(f"redis://:wrong@{server.addr}")) < SLOWEST
    finally:
        server.stop()


def test_a_server_that_is_full(kind: str, make: Callable[..., Both]) -> None:
    """It is away, also for a client that is handed over."""
    server = Server("--maxclients", "2")
    others: list[socket.socket] = []
    while len(others) < 2:  # the connection that found the server up may still have a place
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(b"PING\r\n")
        if s.recv(16) == b"+PONG\r\n":
            others.append(s)
        else:
            s.close()
    own = redis.asyncio.Redis if kind == "async" else redis.Redis
    handed = own(port=server.port, retry=None, socket_timeout=0.05, socket_connect_timeout=0.05)
    try:
        for c in (make(server.addr), make(handed)):
            assert slowest(c) < SLOWEST
    finally:
        for s in others:
            s.close()
        server.stop()


@pytest.mark.parametrize(
    "answer",
    [
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-ERR unknown command 'RL.LIMIT'\r\n",
        b"-NOPERM no\r\n",
        b"-MOVED 1 127.0.0.1:1\r\n",
        b"-LOADING wait\r\n",
        b"-NOAUTH Authentication required.\r\n",
        b"-ERR max number of clients reached\r\n",
        b"+OK\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=lambda a: " ".join(a.decode().split()[:2]),
)
def test_other_answers_are_failures(make: Callable[..., Both], answer: bytes) -> None:
    fake = Fake(lambda command: answer)
    assert slowest(make(fake.addr)) < SLOWEST
    fake.close()


def test_wrong_port(make: Callable[..., Both]) -> None:
    """A server of another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as s:

        def serve() -> None:
            while True:
                try:
                    connection, _ = s.accept()
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                    connection.close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        assert slowest(make("127.0.0.1:%d" % s.getsockname()[1])) < SLOWEST


def test_wrong_type_is_an_error(make: Callable[..., Both], server: Server) -> None:
    with redis.Redis(port=server.port, retry=None) as r:
        r.lpush("list", "x")
    c = make(server.addr, timeout=1)
    for _ in range(6):
        with pytest.raises(ServerError, match="WRONGTYPE"):
            c.allow("list", LIMIT)
    assert c.client.state == "closed"


@pytest.mark.slow
def test_name_server_hangs(make: Callable[..., Both], monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.7)
        raise socket.gaierror("hung")

    c = make("headgate.test:7379")
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    assert slowest(c) < SLOWEST


def test_nobody_is_charged_twice(make: Callable[..., Both]) -> None:
    """Of a connection that breaks after the command, nothing is sent again."""
    fake = Fake(lambda command: b"")
    fake.answer = lambda command: (_ for _ in ()).throw(OSError())  # closes the connection
    c = make(fake.addr)
    for _ in range(3):
        assert c.allow("k", LIMIT).source == "fallback"
    assert len([x for x in fake.commands if x[0] == b"RL.LIMIT"]) == 3
    fake.close()


def test_reset_while_away_is_an_error(make: Callable[..., Both]) -> None:
    with pytest.raises(UnavailableError):
        make("127.0.0.1:1").reset("k")


def test_after_close(make: Callable[..., Both], server: Server) -> None:
    c = make(server.addr, timeout=1)
    c.allow("k", LIMIT)
    c.close()
    with pytest.raises(ClosedError):
        c.allow("k", LIMIT)


def test_the_next_address(make: Callable[..., Both], server: Server) -> None:
    """With several addresses, a node that is away is no outage."""
    other = Server()
    c = make([other.addr, server.addr], timeout=1, leases=False)
    assert c.allow("k", LIMIT).source == "server"
    other.kill()
    c.sleep(0.05)
    assert all(c.allow("k", LIMIT).source == "server" for _ in range(10))


def test_clients_that_are_handed_over(kind: str, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    make = redis.asyncio.Redis if kind == "async" else redis.Redis
    caplog.set_level(logging.WARNING, "headgate_client")
    safe: Any = {"retry": None, "socket_timeout": 1, "socket_connect_timeout": 1}
    for protocol in (2, 3):
        for decode in (True, False):
            c = Both(kind, make(port=server.port, protocol=protocol, decode_responses=decode, **safe), timeout=1)
            d = c.allow(f"h{protocol}{decode}", LIMIT)
            assert (d.source, d.remaining) == ("server", 99)
            assert c.acquire(f"s{protocol}{decode}", 1, 30).id
            c.end()
    assert not caplog.records
    Both(kind, make(port=server.port)).end()
    said = " ".join(r.getMessage() for r in caplog.records)
    assert "sends commands again" in said and "socket_timeout" in said
    caplog.clear()
    c = Both(kind, make(port=1, **safe), timeout=1)
    assert slowest(c) < SLOWEST
    c.end()


def test_our_connections_send_nothing_again(server: Server) -> None:
    pool = Client(server.addr)._sender.pools[0]  # type: ignore[attr-defined]
    connection = pool.make_connection()
    assert connection.retry.get_retries() == 0 and not connection.retry_on_error
    assert connection.socket_timeout and connection.socket_connect_timeout


def test_a_forked_child_starts_afresh(server: Server) -> None:
    limit = Limit(10_000, 60)
    with Client(server.addr, timeout=1) as c:
        for _ in range(200):
            assert c.allow("k", limit).allowed
        assert c._core.leases is not None
        parent = c._core.leases.entries["k"].id
        assert parent
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if not c._core.leases.entries and all(c.allow("k", limit).allowed for _ in range(200)):
                    status = 0 if c._core.leases.entries["k"].id != parent else 2
            finally:
                os._exit(status)
        assert all(c.allow("k", limit).allowed for _ in range(200))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert c._core.leases.entries["k"].id == parent


def test_nothing_keeps_a_process_alive() -> None:
    code = """
from headgate_client import Client, Limit
c = Client("127.0.0.1:1")
for _ in range(10): c.allow("k", Limit(100, 60))
assert c.state == "open"
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)


def test_another_loop(server: Server) -> None:
    """A client that is used by two loops, one after the other."""
    c = AsyncClient(server.addr, timeout=1)
    limit = Limit(10_000, 60)

    async def use() -> set[str]:
        return {(await c.allow("k", limit)).source for _ in range(100)}

    assert "fallback" not in asyncio.run(use())
    assert "fallback" not in asyncio.run(use())


def test_a_cancelled_caller_harms_nobody(server: Server) -> None:
    async def run() -> None:
        async with AsyncClient(server.addr, timeout=1) as c:
            limit = Limit(1_000_000, 60)
            for _ in range(20):
                tasks = [asyncio.create_task(c.allow("k", limit)) for _ in range(20)]
                await asyncio.sleep(0)
                for t in tasks[::2]:
                    t.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(d, Decision) and d.source != "fallback" for d in done[1::2]), done

    asyncio.run(run())


@pytest.mark.slow
def test_leases_admit_no_more_than_the_limit(make: Callable[..., Both], server: Server) -> None:
    """Two clients and plain calls, on one limit."""
    limit = Limit(400, 1)
    a, b = make(server.addr, timeout=1), make(server.addr, timeout=1)
    plain = make(server.addr, timeout=1, leases=False)
    began = time.monotonic()
    admitted = asked = 0
    while time.monotonic() - began < 2:
        for c in (a, b, a, plain):
            asked += 1
            admitted += c.allow("hot", limit).allowed
    took = time.monotonic() - began
    assert admitted <= 400 * (1 + took) + 1
    assert admitted > 400 * took * 0.6
    local = a.client.stats().local + a.client.stats().denied
    assert local > asked / 4, a.client.stats()


def test_close_returns_what_is_held(make: Callable[..., Both], server: Server) -> None:
    limit = Limit(1000, 3600)
    c = make(server.addr, timeout=1)
    for _ in range(100):
        assert c.allow("k", limit).allowed
    assert c.client.stats().local > 0
    c.close()
    time.sleep(0.1)
    assert make(server.addr, timeout=1, leases=False).peek("k", limit).remaining == 1000 - 100 - 1


@pytest.mark.slow
def test_threads(server: Server) -> None:
    """Eight threads share a client, a busy key and a small one."""
    busy, small = Limit(5000, 1), Limit(50, 1)
    admitted = {"busy": 0, "small": 0}
    lock = threading.Lock()
    with Client(server.addr, timeout=1) as c:
        began = time.monotonic()

        def run() -> None:
            mine = {"busy": 0, "small": 0}
            while time.monotonic() - began < 3:
                mine["busy"] += c.allow("busy", busy, 2).allowed
                mine["small"] += c.allow("small", small).allowed
            with lock:
                for k in mine:
                    admitted[k] += mine[k]

        threads = [threading.Thread(target=run) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
            assert not t.is_alive()
        took = time.monotonic() - began
        stats = c.stats()
    assert stats.fallback == 0, stats
    assert 0 < admitted["busy"] * 2 <= 5000 * (1 + took)
    assert 50 < admitted["small"] <= 50 * (1 + took)
    assert stats.local > 0
