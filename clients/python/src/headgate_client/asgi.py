"""Middleware for ASGI: FastAPI, Starlette and others.

    app.add_middleware(RateLimit, client=AsyncClient("127.0.0.1:7379"), limit=Limit.per_minute(100))

Allowed and denied answers have the header fields of the limit. A denied request does not reach
the application. Other connections than HTTP pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ._async import AsyncClient
from ._http import PROBLEM, Rule, Rules

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RateLimit:
    """The options are those of Rules; a request is a scope of ASGI."""

    def __init__(
        self, app: App, client: AsyncClient, limit: Rule | Callable[[Scope], Rule | None], **options: Any
    ) -> None:
        self.app, self.client = app, client
        self.rules: Rules[Scope] = Rules(limit, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        peer = scope.get("client")
        forwarded = [v.decode("latin-1") for k, v in scope["headers"] if k == b"x-forwarded-for"]
        q = self.rules.question(scope, peer[0] if peer else None, forwarded)
        if q is None:
            return await self.app(scope, receive, send)
        d = await self.rules.ask_async(self.client, q)
        added = [(k.lower().encode(), v.encode()) for k, v in self.rules.headers(d, q)]
        if not d.allowed:
            body = self.rules.problem(d)
            added += [(b"content-type", PROBLEM.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": d.status, "headers": added})
            return await send({"type": "http.response.body", "body": body})

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        return await self.app(scope, receive, answer)
