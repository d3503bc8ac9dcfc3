"""Transports for httpx that space requests by what servers say of their limits.

    client = httpx.Client(transport=Transport())
"""

from __future__ import annotations

import asyncio
import time

import httpx

from ._pace import Pace


class Transport(httpx.BaseTransport):
    """Sends by another transport, after a wait of max_wait seconds at most."""

    def __init__(self, transport: httpx.BaseTransport | None = None, max_wait: float = 60.0) -> None:
        self.transport = transport or httpx.HTTPTransport()
        self.pace = Pace(max_wait)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        wait = self.pace.before(request.url.netloc.decode())
        if wait > 0:
            time.sleep(wait)
        response = self.transport.handle_request(request)
        self.pace.after(request.url.netloc.decode(), response.status_code, response.headers)
        return response

    def close(self) -> None:
        self.transport.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """Transport for httpx.AsyncClient."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None, max_wait: float = 60.0) -> None:
        self.transport = transport or httpx.AsyncHTTPTransport()
        self.pace = Pace(max_wait)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        wait = self.pace.before(request.url.netloc.decode())
        if wait > 0:
            await asyncio.sleep(wait)
        response = await self.transport.handle_async_request(request)
        self.pace.after(request.url.netloc.decode(), response.status_code, response.headers)
        return response

    async def aclose(self) -> None:
        await self.transport.aclose()
