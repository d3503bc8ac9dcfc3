"""Leases of busy keys. Every method runs under the core's lock."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from ._block import SPAN, Block, Entry, Loan, Request, Waiter
from ._ops import ErrorReply, Failure, Steps
from ._reply import Grant
from ._values import MS, SECOND, Decision, Limit, duration, leased

if TYPE_CHECKING:
    from ._core import Core

# Calls a second that a key needs before the client leases it.
HOT: Final = 20.0
# Keys that are leased at one time, and keys that are measured.
MOST_LEASES: Final = 10_000
MOST_WATCHED: Final = 40_000
# How long a key is asked for call by call after a request has failed.
PAUSE: Final = 250 * MS
# How long a key that is used stays in its place in the order of use.
LAZY: Final = 50 * MS
# How long the number of holders counts.
HOLDERS: Final = 60 * SECOND

# The outcome of a waiter whose caller asks for itself.
ALONE: Final = Failure("alone", False)


class Leases:
    def __init__(self, core: Core, ttl_ms: int) -> None:
        self.core = core
        self.ttl = ttl_ms * MS
        self.ttl_text = duration(ttl_ms)
        self.entries: dict[str, Entry] = {}
        # The least recently used comes first.
        self.leased: OrderedDict[str, Entry] = OrderedDict()
        self.others: OrderedDict[str, Entry] = OrderedDict()
        self.shares: OrderedDict[str, tuple[float, int]] = OrderedDict()  # by key: its share, as of when
        self.sweeping = False
        self.began = core.runtime.now()

    def entry(self, key: str, limit: Limit, now: int) -> Entry:
        """Returns what is known of a key, as of the one that was used last."""
        e = self.entries.get(key)
        if e is not None and e.limit is not limit and e.limit != limit:
            self.retire(e, now)
            e = None
        if e is None:
            if len(self.others) >= MOST_WATCHED:
                self.retire(next(iter(self.others.values())), now)
            e = self.entries[key] = self.others[key] = Entry(key, limit, now)
            self.sweep_later()
        e.used = now
        if now - e.moved >= LAZY:
            e.moved = now
            (self.leased if e.id else self.others).move_to_end(key)
        return e

    def quick(self, key: str, limit: Limit, cost: int, now: int) -> Entry | Decision:
        """Decides a call from the block of its key. Otherwise it returns the entry. This does
        what entry, Demand.ask and locally do, without calls of functions."""
        e = self.entries.get(key)
        if e is None or e.limit is not limit:
            e = self.entry(key, limit, now)
        else:
            e.used = now
            if now - e.moved >= LAZY:
                e.moved = now
                (self.leased if e.id else self.others).move_to_end(key)
        demand = e.demand
        if now - demand.began >= SPAN:
            demand.ask(cost, now)
        else:
            demand.calls += 1
            demand.units += cost
        if e.id:
            b = e.block
            if now >= b.deadline or b.refill > b.taken:
                b.settle(now)
            stock = b.stock
            if stock >= cost:
                b.stock = stock = stock - cost
                self.core.locals += 1
                if b.refill or stock * 10 <= b.size * 4:
                    self.renew(e, now)
                reset = e.reset_at - now
                return leased(e.capacity, b.left + stock, reset / SECOND if reset > 0 else 0.0)
        return e

    def renew(self, e: Entry, now: int) -> None:
        """Renews a settled block in the background, if it is time to."""
        if e.pending is None and now >= e.ask_alone and not self.core.open and e.block.low(now):
            self.core.runtime.background(self.request(self.ask(e, now)))

    def lease(self, e: Entry, now: int) -> bool:
        """Makes a key leased if it is asked for often enough and there is room. It reports
        whether callers wait for a request, and do not ask by themselves."""
        if now < e.ask_alone or self.core.open:
            return False
        if e.id:
            return True
        if not e.demand.hot(HOT):
            return False
        if len(self.leased) >= MOST_LEASES:
            # A key that is used as often as a leased key must be stays: to put it out would
            # cost more calls than it saves.
            old = next(iter(self.leased.values()))
            if now - old.used < 2 * SECOND / HOT:
                return False
            self.retire(old, now)
        del self.others[e.key]
        e.id, e.seq, e.block = secrets.token_hex(16), 0, Block()
        self.leased[e.key] = e
        return True

    def unlease(self, e: Entry, now: int) -> None:
        """Gives the block of a key without a request back. The key is asked for call by call
        then."""
        if not e.id:
            return
        self.give_back(e, now)
        del self.leased[e.key]
        e.id, e.block = "", Block()
        self.others[e.key] = e

    def retire(self, e: Entry, now: int) -> None:
        """Forgets a key. Callers that wait get their answer, and its block goes back."""
        del self.entries[e.key]
        del (self.leased if e.id else self.others)[e.key]
        e.retired = True
        if e.pending is None:
            self.give_back(e, now)

    def give_back(self, e: Entry, now: int) -> None:
        """Sends an RL.RETURN for what is left of a block without a request."""
        if not e.id:
            return
        e.block.settle(now)
        refill, held = e.block.refill > e.block.taken, e.block.stock
        e.block.held()
        if held == 0 and not refill:
            return
        e.seq += 1
        e.block = Block()  # what all() has lent is spent: it must not come back into a later block
        if not self.core.open:  # otherwise the units come back at the deadline
            self.core.returned(("RL.RETURN", e.key, "ID", e.id, "SEQ", str(e.seq), "HELD", str(held)))

    def ask(self, e: Entry, now: int) -> Request:
        """Returns a request for a lease of a key without one under way. It asks for all that
        callers wait for. The caller carries it out by request()."""
        e.block.settle(now)
        e.seq += 1
        r = Request(e, now, e.block.held(), e.demand.want(self.ttl, now))
        for w in e.waiting:
            if not w.gone:
                w.asked = True
                r.waiters.append(w)
                r.need += w.cost
        e.waiting = []
        e.pending, e.sent = r, now
        r.args = (
            "RL.LEASE", e.key, *e.limit.arguments, "ID", e.id, "SEQ", str(r.seq), "WANT", str(r.want), "HELD", str(r.held),
            "NEED", str(r.need), "TTL", self.ttl_text, *e.limit.options,
        )  # fmt: skip
        return r

    def request(self, r: Request) -> Steps[None]:
        """Carries a request out. It does not run under the lock."""
        core = self.core
        reply: object = Failure("the client was stopped", True)
        try:
            reply = yield from core.exchange(r.args, r.sent)
        finally:
            grant = core.judge(reply, Grant)
            with core.lock:
                again = self.answer(r, grant)
            if again is not None:
                core.runtime.background(self.request(again))

    def answer(self, r: Request, g: Grant | Failure | ErrorReply) -> Request | None:
        """Takes the reply to a request. A reply to any but the latest one changes nothing. It
        returns the next request, if there are callers for one."""
        e = r.entry
        if e.pending is not r:
            return None
        e.pending = None
        now = self.core.runtime.now()
        e.block.settle(now)
        if isinstance(g, Grant):
            d = g.decision
            e.reset_at, e.capacity = now + int(d.reset_after * SECOND), d.limit
            self.note_share(e.key, g, now)
            if g.ttl == 0:
                self.serve(e, r, d, now)
                # What is held goes back: the server gives no lease now. The id stays, so that
                # the server counts one holder.
                e.ask_alone = now + self.ttl // 40
                self.give_back(e, now)
            else:
                e.block.grant(g, r.sent, now, r.need, r.want - r.held)
                self.serve(e, r, d, now)
        else:
            e.ask_alone = now + PAUSE
            for w in r.waiters:
                # A caller's mistake is answered to each caller by a call of its own.
                w.end(g if isinstance(g, Failure) else ALONE)
        return self.proceed(e, now)

    def note_share(self, key: str, g: Grant, now: int) -> None:
        """Notes this process's part of a key's limit. One that gets no lease is not one of the
        holders, and may not be the only one."""
        if g.holders < 1:
            return
        share = 1 / g.holders if g.ttl > 0 else min(self.core.share, 1 / (g.holders + 1))
        if key not in self.shares and len(self.shares) >= MOST_LEASES:
            self.shares.popitem(last=False)
        self.shares[key] = (share, now)
        self.shares.move_to_end(key)

    def share(self, key: str, now: int) -> float | None:
        """Returns this process's part of a key's limit, if the server has said it lately."""
        known = self.shares.get(key)
        return known[0] if known is not None and now - known[1] <= HOLDERS else None

    def serve(self, e: Entry, r: Request, d: Decision, now: int) -> None:
        """Answers the callers that a reply was for. It was for all of them or for none. After a
        denial some may do with what was granted, or with what is left."""
        if d.allowed:
            for w in r.waiters:
                w.end(d)
            return
        left = d.remaining
        for w in r.waiters:
            if e.block.stock >= w.cost:
                e.block.stock -= w.cost
                w.end(self.local(e, now))
            elif w.cost < r.need and w.cost <= left and not w.again:
                left -= w.cost
                w.again, w.asked = True, False
                e.waiting.append(w)
            else:
                one = d
                if d.retry_after > 0:
                    one = self.core.with_wait(d, sooner(e.limit, d.retry_after, r.need - w.cost))
                self.core.remember(e.key, e.limit, one, w.cost, now)
                w.end(one)

    def proceed(self, e: Entry, now: int) -> Request | None:
        """Answers the callers that came while a request was under way, and asks for what they
        need."""
        waiting, e.waiting = e.waiting, []
        for w in waiting:
            d = self.locally(e, w.cost, now)
            if w.gone:
                continue
            if d is not None and (not w.again or d.allowed):
                self.core.count(d)
                w.end(d)
            elif not e.id or e.retired or now < e.ask_alone:
                w.end(ALONE)
            else:
                e.waiting.append(w)
        if e.retired:
            self.give_back(e, now)
        elif e.waiting:
            return self.ask(e, now)
        return None

    def local(self, e: Entry, now: int) -> Decision:
        """Returns the answer to a call that the block admits."""
        b = e.block
        return leased(e.capacity, b.left + b.stock, (e.reset_at - now) / SECOND if e.reset_at > now else 0.0)

    def locally(self, e: Entry, cost: int, now: int) -> Decision | None:
        """Decides a call without the server, if it can."""
        if e.id:
            b = e.block
            b.settle(now)
            if b.stock >= cost:
                b.stock -= cost
                return self.local(e, now)
        return self.core.recall(e.key, e.limit, cost, now) or self.refuse(e, cost, now)

    def borrow(self, key: str, limit: Limit, cost: int, now: int, loans: list[Loan]) -> Decision | None:
        """Decides one limit of an all(), if the client can."""
        e = self.entry(key, limit, now)
        e.demand.ask(cost, now)
        d = self.locally(e, cost, now)
        if d is not None:
            self.core.count(d)
            if d.allowed:
                loans.append(Loan(e.block, cost))
        # A request brings units for calls to come. This one does not wait for it.
        if self.lease(e, now) and e.pending is None and (d is None and e.block.stock < cost or e.block.low(now)):
            self.core.runtime.background(self.request(self.ask(e, now)))
        return d

    def refuse(self, e: Entry, cost: int, now: int) -> Decision | None:
        """Denies a call of cost while the block waits for its refill. The block must be settled
        and hold less."""
        if not e.id or now >= e.block.deadline:
            return None
        wait = e.block.due(now, cost)
        if wait <= 0:
            return None
        return Decision(
            False, e.capacity, e.block.left + e.block.stock, wait / SECOND, max(e.reset_at - now, 0) / SECOND, 0.0,
            "denied", False, 429,
        )  # fmt: skip

    def sweep_later(self) -> None:
        if not self.sweeping:
            self.sweeping = True
            every, past = min(self.ttl // 20, 100 * MS), self.core.runtime.now() - self.began
            self.core.runtime.later(every - past % every, self.sweep)

    def sweep(self) -> None:
        """Renews blocks that would lapse, gives back those that are not used any more, and
        forgets keys. It takes the lock."""
        core = self.core
        with core.lock:
            self.sweeping = False
            now = core.runtime.now()
            for e in list(self.leased.values()):
                if e.pending is None:
                    self.look(e, now)
            for e in list(self.others.values()):
                if now - e.used < self.ttl:
                    break
                self.retire(e, now)
            if self.entries and not core.closed:
                self.sweep_later()

    def look(self, e: Entry, now: int) -> None:
        """Renews a block when three fifths of its time are over. If it is hardly used any more,
        it gives the block back shortly before its deadline."""
        held = e.block.deadline > e.sent
        # The server may have given nothing. It counts the id all the same, as one that wants units.
        lasts = e.block.deadline - e.sent if held else self.ttl
        if now < e.sent + lasts * 3 // 5:
            return
        if e.used > e.sent and e.demand.rates(now)[0] >= HOT / 2:
            if held and now >= e.ask_alone and not self.core.open:
                self.core.runtime.background(self.request(self.ask(e, now)))
        elif now >= e.sent + lasts * 4 // 5:
            self.unlease(e, now)

    def wait(self, e: Entry, cost: int, now: int) -> tuple[Waiter, Request | None]:
        """Adds a caller to those that wait for a reply. The caller carries out the request."""
        w = Waiter(cost)
        e.waiting.append(w)
        return w, self.ask(e, now) if e.pending is None else None

    def close(self, now: int) -> None:
        for e in list(self.entries.values()):
            self.retire(e, now)

    def forget(self) -> None:
        """Drops everything, as a forked child does."""
        self.entries.clear()
        self.leased.clear()
        self.others.clear()
        self.sweeping = False


def sooner(limit: Limit, wait: float, units: int) -> float:
    """Returns a wait that is shorter by what units take to refill."""
    return max(wait - limit.period_ms / 1000 / limit.units * units, 0.001)
