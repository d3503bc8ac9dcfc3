"""Replies of the server, as arrays of RESP2 or as maps of RESP3."""

from __future__ import annotations

from typing import Any, Final

from ._values import MS, Decision, HeadgateError, LimitState


class WrongReply(HeadgateError):
    """The reply has not the form of Headgate's."""


DECISION: Final = ("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms")
CHECK: Final = (*DECISION, "name", "reason", "hold", "version", "applied", "limits", "soft")
OF_CHECK: Final = ("name", *DECISION, "cost", "mode", "status", "window_ms")
LEASE: Final = (*DECISION, "granted", "ttl_ms", "refill", "refill_ms", "holders")
ACQUIRE: Final = ("allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms")


def text(value: Any) -> str | None:
    """Returns a bulk string, which a client may give as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, str):
        return value
    raise WrongReply(f"the reply has {value!r} in place of a text: is the server Headgate?")


def integer(value: Any) -> int:
    # A client may give the answer to a yes or no as a bool.
    if isinstance(value, int):
        return int(value)
    raise WrongReply(f"the reply has {value!r} in place of an integer: is the server Headgate?")


def fields(reply: Any, names: tuple[str, ...]) -> list[Any]:
    """Returns the fields of a reply, in the order of names."""
    if isinstance(reply, dict):
        out = []
        for name in names:
            value = reply.get(name, reply)
            if value is reply:
                value = reply.get(name.encode(), reply)
            if value is reply:
                raise WrongReply(f"the reply has no {name}: is the server Headgate?")
            out.append(value)
        return out
    if not isinstance(reply, (list, tuple)):
        raise WrongReply(f"the reply is {reply!r}, not an array or a map: is the server Headgate?")
    if len(reply) < len(names):
        raise WrongReply(f"the reply has {len(reply)} values, {len(names)} are needed: is the server Headgate?")
    return list(reply)


def degraded(reply: Any) -> bool:
    """Reports whether the server's failure policy answered. Only RESP3 says so."""
    return isinstance(reply, dict) and bool(reply.get("degraded", reply.get(b"degraded", False)))


def seconds(ms: Any) -> float:
    ms = integer(ms)
    return -1.0 if ms < 0 else ms / 1000


def decision(reply: Any) -> Decision:
    """Reads the reply to RL.LIMIT."""
    v = fields(reply, DECISION)
    allowed = integer(v[0]) != 0
    return Decision(
        allowed, integer(v[1]), integer(v[2]), seconds(v[3]), seconds(v[4]), seconds(v[5]), "server", degraded(reply),
        200 if allowed else 429,
    )  # fmt: skip


def check(reply: Any) -> Decision:
    """Reads the reply to RL.CHECK, RL.RESERVE, RL.COMMIT and RL.CANCEL."""
    v = fields(reply, CHECK)
    if not isinstance(v[11], (list, tuple)):
        raise WrongReply(f"the limits of the reply are {v[11]!r}: is the server Headgate?")
    limits = {}
    for each in v[11]:
        s = fields(each, OF_CHECK)
        limits[text(s[0]) or ""] = LimitState(
            integer(s[1]) != 0, integer(s[2]), integer(s[3]), seconds(s[4]), seconds(s[5]), seconds(s[6]),
            integer(s[7]), text(s[8]) or "", integer(s[9]), integer(s[10]) / 1000,
        )  # fmt: skip
    allowed, name = integer(v[0]) != 0, text(v[6])
    status = 200
    if not allowed:
        state = limits.get(name) if name else None
        status = state.status if state and state.status != 200 else 403 if integer(v[3]) < 0 else 429
    return Decision(
        allowed, integer(v[1]), integer(v[2]), seconds(v[3]), seconds(v[4]), seconds(v[5]), "server", degraded(reply),
        status, name, text(v[7]), text(v[8]), limits,
    )  # fmt: skip


class Grant:
    """The reply to RL.LEASE. Times are in nanoseconds."""

    __slots__ = ("decision", "granted", "holders", "refill", "refill_for", "ttl")

    def __init__(self, reply: Any) -> None:
        v = fields(reply, LEASE)
        self.decision = decision(reply)
        self.granted = integer(v[6])
        self.ttl = integer(v[7]) * MS
        self.refill = integer(v[8])
        self.refill_for = integer(v[9]) * MS
        self.holders = integer(v[10])
