"""What the middleware of all frameworks does: keys, header fields and bodies."""

from __future__ import annotations

import ipaddress
import json
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar, Union

from ._async import AsyncClient
from ._core import Attributes
from ._fallback import MOST, Bucket
from ._sync import Client
from ._values import ConfigurationError, Decision, Limit, Policy, ServerError

Request = TypeVar("Request")
Rule = Union[Limit, Policy]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

PROBLEM: Final = "application/problem+json"
TITLES: Final = {403: "Forbidden", 429: "Too Many Requests", 503: "Service Unavailable"}
# How much more than its limit the backstop admits per address.
BACKSTOP: Final = 10


@dataclass(frozen=True)
class Question:
    """What a request asks: a key of a limit, or a policy with attributes."""

    rule: Rule
    key: str
    attributes: Attributes
    address: str


class Rules(Generic[Request]):
    """The options of a middleware.

    - ``limit``: a Limit or a Policy, or a function that returns one of them for a request, or
      None for a request without a limit.
    - ``key``: a function that returns who a request counts for. Without it, that is the
      client's address: of IPv6 the /64.
    - ``attributes``: a function that returns a policy's attributes. Without it, ``ip``.
    - ``trusted_proxies``: addresses or networks of the proxies in front of the application.
      Only they may name the client, by X-Forwarded-For. An empty list says that there are
      none. Without the option, a request that has the field raises ConfigurationError.
    - ``backstop``: deny an address that sends ten times the limit, before anything else.
    - ``max_retry_after``: seconds that Retry-After says at most.
    - ``name``: of the limit, in header fields and keys. Limits that differ need names that
      differ.
    """

    def __init__(
        self, limit: Rule | Callable[[Request], Rule | None], *, key: Callable[[Request], str] | None = None,
        attributes: Callable[[Request], Attributes] | None = None, trusted_proxies: Sequence[str] | None = None,
        backstop: bool = False, max_retry_after: int | None = None, name: str = "default",
    ) -> None:  # fmt: skip
        if not isinstance(limit, (Limit, Policy)) and not callable(limit):
            raise TypeError(f"limit is {limit!r}: use a Limit, a Policy or a function")
        if isinstance(trusted_proxies, str):
            raise TypeError("trusted_proxies is a text: use a list of addresses or networks")
        if isinstance(limit, Policy) and key is not None:
            raise TypeError("a policy has attributes, not a key")
        if isinstance(limit, Policy) and limit.limit is None and backstop:
            raise TypeError("a backstop needs a limit: give the policy one")
        self.limit, self.key, self.attributes = limit, key, attributes
        self.proxies: list[Network] | None = None
        if trusted_proxies is not None:
            self.proxies = [ipaddress.ip_network(p) for p in trusted_proxies]
        self.backstop = Backstop() if backstop else None
        self.max_retry_after, self.name = max_retry_after, name

    def question(self, request: Request, peer: str | None, forwarded: Sequence[str]) -> Question | None:
        """Returns what a request asks. forwarded are its fields X-Forwarded-For."""
        rule = self.limit if isinstance(self.limit, (Limit, Policy)) else self.limit(request)
        if rule is None:
            return None
        named = self.attributes if isinstance(rule, Policy) else self.key
        address = self.address(peer, forwarded) if named is None or self.backstop is not None else ""
        if isinstance(rule, Policy):
            attributes = self.attributes(request) if self.attributes is not None else {"ip": address}
            return Question(rule, "", attributes, address)
        who = self.key(request) if self.key is not None else network(address)
        return Question(rule, f"{self.name}:{who}", {}, address)

    def address(self, peer: str | None, forwarded: Sequence[str]) -> str:
        """Returns the address of the client: the last one that no trusted proxy has."""
        if forwarded and self.proxies is None:
            raise ConfigurationError(
                "a request has X-Forwarded-For, and trusted_proxies is not set: name the addresses of your proxies, "
                "or set an empty list if there are none"
            )
        chain = [a.strip() for field in forwarded for a in field.split(",")]
        # A peer without an address is a local socket, which only a proxy uses.
        if peer is None and self.proxies and chain:
            peer = chain.pop()
        if peer is None:
            raise ConfigurationError("a request has no address of a client: set key, or attributes")
        while chain and self.trusted(peer) and parsed(chain[-1]) is not None:
            peer = chain.pop()
        return peer

    def trusted(self, address: str) -> bool:
        ip = parsed(address)
        return ip is not None and any(ip.version == n.version and ip in n for n in self.proxies or ())

    def ask(self, client: Client, q: Question) -> Decision:
        d = self.refused(q)
        if d is not None:
            return d
        try:
            return client.check(q.rule, q.attributes) if isinstance(q.rule, Policy) else client.allow(q.key, q.rule)
        except ServerError as e:
            return client._core.instead(e)

    async def ask_async(self, client: AsyncClient, q: Question) -> Decision:
        d = self.refused(q)
        if d is not None:
            return d
        try:
            if isinstance(q.rule, Policy):
                return await client.check(q.rule, q.attributes)
            return await client.allow(q.key, q.rule)
        except ServerError as e:
            return client._core.instead(e)

    def refused(self, q: Question) -> Decision | None:
        """Returns the backstop's denial, if there is one."""
        if self.backstop is None:
            return None
        limit = q.rule if isinstance(q.rule, Limit) else q.rule.limit
        return self.backstop.check(q.address, limit) if limit is not None else None

    def headers(self, d: Decision, q: Question) -> list[tuple[str, str]]:
        """Returns the header fields of an answer."""
        out: list[tuple[str, str]] = []
        if d.limit >= 0:
            name, window = self.name, None
            state = d.limits.get(d.name) if d.name else None
            if d.name and state is not None:
                name, window = d.name, state.window
            elif d.source == "backstop":
                pass  # ten times the limit
            elif isinstance(q.rule, Limit):
                window = q.rule.window_ms / 1000
            elif q.rule.limit is not None:
                window = q.rule.limit.window_ms / 1000
            t = d.reset_after if d.allowed else d.retry_after
            wait = f";t={math.ceil(t)}" if t >= 0 else ""
            w = f";w={round(window)}" if window and window == round(window) else ""
            name = quoted(name)
            out = [
                ("RateLimit", f"{name};r={d.remaining}{wait}"),
                ("RateLimit-Policy", f"{name};q={d.limit}{w}"),
                ("X-RateLimit-Limit", str(d.limit)),
                ("X-RateLimit-Remaining", str(d.remaining)),
                ("X-RateLimit-Reset", str(math.ceil(time.time() + d.reset_after))),
            ]
        if not d.allowed:
            if d.retry_after >= 0:
                seconds = max(math.ceil(d.retry_after), 1)
                if self.max_retry_after is not None:
                    seconds = min(seconds, self.max_retry_after)
                out.append(("Retry-After", str(seconds)))
            out.append(("Cache-Control", "no-store"))
        return out

    @staticmethod
    def problem(d: Decision) -> bytes:
        """Returns the body of a denial, of RFC 9457."""
        body: dict[str, Any] = {"type": "about:blank", "title": TITLES.get(d.status, "Denied"), "status": d.status}
        if d.retry_after >= 0:
            body["retry_after_ms"] = math.ceil(round(d.retry_after * 1e6) / 1000)
        return json.dumps(body, separators=(",", ":")).encode()


def parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (ip.ipv4_mapped or ip) if isinstance(ip, ipaddress.IPv6Address) else ip


def quoted(name: str) -> str:
    """Returns a string of a structured field. It has only visible characters of ASCII, and spaces."""
    return '"' + re.sub(r"[^ -~]", "_", re.sub(r'(["\\])', r"\\\1", name)) + '"'


def network(address: str) -> str:
    """Returns what an address is counted by: of IPv6 the /64, since a client has all of it."""
    ip = parsed(address)
    if ip is None:
        return address
    return str(ipaddress.ip_network((ip, 64), strict=False)) if ip.version == 6 else str(ip)


class Backstop:
    """Buckets of addresses in this process, in front of everything."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.buckets: OrderedDict[str, Bucket] = OrderedDict()

    def check(self, address: str, limit: Limit) -> Decision | None:
        key, now = network(address), time.monotonic_ns()
        with self.lock:
            b = self.buckets.get(key)
            if b is None or b.limit != limit:
                if b is None and len(self.buckets) >= MOST:
                    self.buckets.popitem(last=False)
                b = self.buckets[key] = Bucket(limit, BACKSTOP, now)
            self.buckets.move_to_end(key)
            b.fill(now)
            if b.has(1):
                b.take(1)
                return None
            return replace(b.answer(1, False), limit=BACKSTOP * limit.capacity, source="backstop", degraded=False)
