"""Leased units in calls of all(), by a scripted server."""

from __future__ import annotations

from typing import Any

import pytest
from test_conformance import Scripted

from headgate_client import Decision, KeyLimit, Limit, ServerError
from headgate_client._block import Loan
from headgate_client._core import Core
from headgate_client._ops import ErrorReply, Failure

BUSY, RARE = Limit(1000, 1), Limit(60, 60)
HELD = 100


class Rig(Scripted):
    """A client that has leased the key k, and then holds HELD units of it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, ...]] = []
        self.answer: Any = [1, 60, 58, 0, 2000, 0]
        self.core = Core(self, timeout=0.05, processes=0, leases=True, lease_ttl=2)
        for _ in range(20):
            self.run(self.core.allow("k", BUSY))
        assert self.core.leases is not None
        self.entry = self.core.leases.entries["k"]
        self.entry.block.stock = self.entry.block.size = HELD
        self.sent.clear()

    def reply(self, args: tuple[str, ...]) -> Any:
        self.sent.append(args)
        if args[0] == "RL.LEASE":
            need = int(args[args.index("NEED") + 1])
            return [1, 1000, 900, 0, 100, 0, need + HELD, 2000, 0, 0, 1]
        if args[0] == "RL.LIMIT" and args[1] != "k":
            return self.answer(args) if callable(self.answer) else self.answer
        return [1, 1000, 900, 0, 100, 0]

    def all(self, *parts: KeyLimit) -> Decision:
        d: Decision = self.run(self.core.all(parts))
        self.settle()
        return d


BOTH = KeyLimit("k", BUSY, 10), KeyLimit("rare", RARE, 2)


def test_leased_units_are_spent_first() -> None:
    r = Rig()
    d = r.all(*BOTH)
    assert (d.allowed, d.source, d.limit, d.remaining) == (True, "server", 60, 58)
    assert r.sent == [("RL.LIMIT", "rare", "60", "60s", "COST", "2")]
    assert r.entry.block.stock == HELD - 10
    r.sent.clear()
    d = r.all(BOTH[0])
    assert (d.allowed, d.source, r.sent) == (True, "lease", [])
    assert r.entry.block.stock == HELD - 20


def denied(args: Any) -> Any:
    return [0, 60, 0, 1000, 60000, 0]


def test_a_denial_puts_them_back() -> None:
    r = Rig()
    before = r.core.stats().local
    r.answer = denied
    assert not r.all(*BOTH).allowed
    assert (r.entry.block.stock, r.entry.block.lent) == (HELD, 0)
    r.sent.clear()
    d = r.all(*BOTH)  # by memory
    assert (d.allowed, d.source, r.sent) == (False, "denied", [])
    assert r.entry.block.stock == HELD
    assert r.core.stats().local == before


def test_an_error_puts_them_back() -> None:
    r = Rig()
    r.answer = ErrorReply("ERR broken")
    with pytest.raises(ServerError):
        r.all(*BOTH)
    assert (r.entry.block.stock, r.entry.block.lent) == (HELD, 0)


def test_while_the_server_is_away_they_are_taken_too() -> None:
    r = Rig()
    r.answer = Failure("refused", False)
    for _ in range(6):
        d = r.all(*BOTH)
        assert (d.allowed, d.source, d.limit) == (True, "fallback", 60)
    assert r.entry.block.stock == HELD - 60
    debts = r.core.debts
    assert [(k, debt.units) for k, debt in debts.items()] == [("rare", 12)]


def test_the_least_of_both_is_told() -> None:
    r = Rig()
    r.answer = [1, 10_000, 9000, 0, 100, 0]
    d = r.all(BOTH[0], KeyLimit("wide", Limit(10_000, 1)))
    assert (d.allowed, d.source, d.limit) == (True, "server", 1000)


def test_what_is_lent_counts_as_held() -> None:
    """A request that is sent while the call is under way says what may come back."""
    r = Rig()
    seen: list[tuple[int, int]] = []

    def answer(args: Any) -> Any:
        seen.append((r.entry.block.stock, r.entry.block.lent))
        r.settle()  # the request for more
        return denied(args)

    r.answer = answer
    assert not r.all(KeyLimit("k", BUSY, 75), BOTH[1]).allowed
    assert seen == [(25, 75)]
    lease = next(c for c in r.sent if c[0] == "RL.LEASE")
    assert lease[lease.index("HELD") + 1] == str(HELD)
    assert (r.entry.block.stock, r.entry.block.lent) == (2 * HELD, 0)


def test_a_loan_does_not_outlive_its_block() -> None:
    r = Rig()
    assert r.core.leases is not None
    r.entry.block.stock -= 3
    loan = Loan(r.entry.block, 3)
    r.core.leases.give_back(r.entry, r.clock)
    r.entry.block.stock, r.entry.block.deadline = 10, r.clock + 1_000_000_000
    loan.settle(False, r.clock)
    assert (r.entry.block.stock, r.entry.block.lent) == (10, 0)
    # Nor does it outlive a deadline.
    loan = Loan(r.entry.block, 3)
    r.clock = r.entry.block.deadline
    r.entry.block.settle(r.clock)
    loan.settle(False, r.clock)
    assert (r.entry.block.stock, r.entry.block.lent) == (0, 0)


def test_a_key_that_all_asks_often_is_leased() -> None:
    r = Rig()
    other = KeyLimit("other", BUSY)
    for _ in range(20):
        r.all(other)
    assert any(c[0] == "RL.LEASE" and c[1] == "other" for c in r.sent)
    r.sent.clear()
    assert r.all(other).source == "lease"
