"""What the middleware of all frameworks does, without a framework."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import pytest
import redis
from fake import Fake
from server import Server

from headgate_client import AsyncClient, Client, ConfigurationError, Decision, Limit, Policy, ServerError
from headgate_client._http import Rules

LIMIT = Limit(10, 60)


def ask(kind: str, server: str, rules: Rules[Any], times: int = 1) -> tuple[list[Decision], Any]:
    """Asks by a client of its own. The second result is its counts."""
    q = rules.question(None, "192.0.2.1", [])
    assert q is not None
    if kind == "sync":
        with Client(server, timeout=1) as c:
            return [rules.ask(c, q) for _ in range(times)], c.stats()

    async def run() -> tuple[list[Decision], Any]:
        async with AsyncClient(server, timeout=1) as c:
            return [await rules.ask_async(c, q) for _ in range(times)], c.stats()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("policy", "allowed", "limit", "status"),
    [
        (Policy("nobody"), [True] * 8, -1, 200),
        (Policy("nobody", "closed"), [False] * 8, -1, 503),
        (Policy("nobody", limit=LIMIT), [True] * 2 + [False] * 6, 10, 429),
    ],
    ids=["open", "closed", "local"],
)
def test_no_such_policy(
    kind: str, policy: Policy, allowed: list[bool], limit: int, status: int, server: Server,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The failure policy decides, the log has it once, and nothing is charged back."""
    got, stats = ask(kind, server.addr, Rules(policy), 8)
    assert [d.allowed for d in got] == allowed
    assert (got[-1].limit, got[-1].status, got[-1].source, got[-1].degraded) == (limit, status, "fallback", True)
    assert (stats.mistakes, stats.failures, stats.opened, stats.charged) == (8, 0, 0, 0)
    said = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(said) == 1 and said[0].levelno == logging.ERROR and "NOPOLICY" in said[0].getMessage()


def test_what_was_admitted_instead_is_not_charged() -> None:
    answers = iter([b"-WRONGTYPE no\r\n", b"*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:6000\r\n:0\r\n"])
    fake = Fake(lambda command: next(answers))
    got, stats = ask("sync", fake.addr, Rules(LIMIT), 2)
    assert [(d.allowed, d.source) for d in got] == [(True, "fallback"), (True, "server")]
    assert [c[0] for c in fake.commands] == [b"RL.LIMIT"] * 2
    fake.close()


def test_the_error_has_the_decision(server: Server) -> None:
    with redis.Redis(port=server.port, retry=None) as r:
        r.lpush("list", "x")
    with Client(server.addr, timeout=1) as c:
        for call in (c.peek, c.allow):
            with pytest.raises(ServerError, match="WRONGTYPE") as e:
                call("list", LIMIT)
            assert e.value.decision is not None and e.value.decision.remaining == 1
        with pytest.raises(ServerError, match="WRONGTYPE") as e:
            c.refund("list", LIMIT)
        assert e.value.decision is None


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "key"),
    [
        (None, "192.0.2.1", [], "192.0.2.1"),
        (None, "2001:db8::7", [], "2001:db8::/64"),
        (None, "::ffff:192.0.2.1", [], "192.0.2.1"),
        ([], "192.0.2.1", ["203.0.113.9"], "192.0.2.1"),
        (["10.0.0.0/8"], "192.0.2.1", ["203.0.113.9"], "192.0.2.1"),
        (["10.0.0.0/8"], "10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        (["10.0.0.0/8"], "10.0.0.1", ["1.1.1.1, 203.0.113.9", "10.0.0.2"], "203.0.113.9"),
        (["10.0.0.0/8"], "10.0.0.1", ["nobody, 10.0.0.2"], "10.0.0.2"),
        (["10.0.0.0/8"], "10.0.0.1", ["nobody"], "10.0.0.1"),
        (["10.0.0.0/8"], None, ["203.0.113.9"], "203.0.113.9"),
    ],
)
def test_addresses(proxies: list[str] | None, peer: str | None, forwarded: list[str], key: str) -> None:
    q = Rules[Any](LIMIT, trusted_proxies=proxies, name="pages").question(None, peer, forwarded)
    assert q is not None and q.key == f"pages:{key}"


def test_no_guess_of_an_address() -> None:
    rules = Rules[Any](LIMIT)
    with pytest.raises(ConfigurationError, match="trusted_proxies"):
        rules.question(None, "192.0.2.1", ["203.0.113.9"])
    with pytest.raises(ConfigurationError, match="address"):
        rules.question(None, None, [])
    # Who names the key does not need an address.
    q = Rules[Any](LIMIT, key=lambda r: "eve").question(None, None, ["203.0.113.9"])
    assert q is not None and q.key == "default:eve"


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(TypeError, match="a policy has attributes, not a key"):
        Rules[Any](Policy("p"), key=lambda r: "k")
    with pytest.raises(TypeError, match="a backstop needs a limit"):
        Rules[Any](Policy("p"), backstop=True)
    with pytest.raises(ValueError, match="10.0.0"):
        Rules[Any](LIMIT, trusted_proxies=["10.0.0.0/99"])


def test_the_backstop() -> None:
    """It admits ten times the limit for an address, or for a /64 network, before everything else."""
    rules = Rules[Any](Limit(2, 3600), backstop=True, name="pages")

    def refused(address: str) -> Decision | None:
        q = rules.question(None, address, [])
        assert q is not None
        return rules.refused(q)

    assert [refused(f"2001:db8::{i}") for i in range(20)] == [None] * 20
    d = refused("2001:db8::ffff")
    assert d is not None
    assert (d.source, d.status, d.degraded, d.limit, d.remaining) == ("backstop", 429, False, 20, 0)
    assert 170 < d.retry_after <= 180
    q = rules.question(None, "2001:db8::1", [])
    assert q is not None
    fields = dict(rules.headers(d, q))
    wait = math.ceil(d.retry_after)
    assert (fields["RateLimit"], fields["RateLimit-Policy"]) == (f'"pages";r=0;t={wait}', '"pages";q=20')
    assert (fields["X-RateLimit-Limit"], fields["Retry-After"]) == ("20", str(wait))
    assert refused("2001:db8:0:1::1") is None and refused("192.0.2.1") is None
    for i in range(10_000):
        refused(f"10.{i // 62500}.{i // 250 % 250}.{i % 250}")
    assert refused("2001:db8::1") is None, "it keeps 10,000 addresses"

    # No command is sent for a call that it denies.
    fake = Fake(lambda command: b"*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:6000\r\n:0\r\n")
    got, stats = ask("sync", fake.addr, Rules(Limit(1, 3600, leased=False), backstop=True), 12)
    assert [d.source for d in got[:10]] == ["server"] * 10 and [d.source for d in got[10:]] == ["backstop"] * 2
    assert len(fake.commands) == 10
    fake.close()


def test_fields() -> None:
    rules = Rules[Any](LIMIT, max_retry_after=60, name='a"b\\\xfc')
    q = rules.question(None, "192.0.2.1", [])
    assert q is not None
    fields = dict(rules.headers(Decision(False, 10, 0, 90.5, 300.0, 0.0, "server", False, 429), q))
    assert fields["RateLimit"] == '"a\\"b\\\\_";r=0;t=91'
    assert fields["RateLimit-Policy"] == '"a\\"b\\\\_";q=10;w=60'
    assert fields["Retry-After"] == "60", "the cap"
    fields = dict(rules.headers(Decision(False, 10, 10, -1.0, 0.0, 0.0, "server", False, 429), q))
    assert "Retry-After" not in fields and fields["RateLimit"].endswith(";r=10")
    rules = Rules[Any](Limit(10, 0.5))
    q = rules.question(None, "192.0.2.1", [])
    assert q is not None
    assert dict(rules.headers(Decision(True, 10, 9, 0.0, 0.05, 0.0), q))["RateLimit-Policy"] == '"default";q=10'
