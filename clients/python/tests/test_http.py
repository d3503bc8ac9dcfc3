"""What the middleware of all frameworks does, without a framework."""

from __future__ import annotations

import asyncio
import logging
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
