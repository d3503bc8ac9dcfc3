"""Middleware for Django, under WSGI and ASGI.

    MIDDLEWARE = ["headgate_client.django.RateLimit", ...]
    HEADGATE = {"server": "127.0.0.1:7379", "limit": Limit.per_minute(100)}

HEADGATE has the arguments of Client and the options of Rules; a request is Django's. Allowed
and denied answers have the header fields of the limit. A denied request does not reach its view.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from ._async import AsyncClient
from ._http import PROBLEM, Question, Rules
from ._sync import Client
from ._values import Decision

_CLIENT = ("server", "timeout", "processes", "leases", "lease_ttl")


class RateLimit:
    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        options = dict(getattr(settings, "HEADGATE", {}))
        if "limit" not in options:
            raise ImproperlyConfigured("the setting HEADGATE needs a limit")
        client = {k: options.pop(k) for k in _CLIENT if k in options}
        self.get_response = get_response
        self.rules: Rules[HttpRequest] = Rules(options.pop("limit"), **options)
        if iscoroutinefunction(get_response):
            self.is_async = True
            markcoroutinefunction(self)
            self.async_client = AsyncClient(**client)
        else:
            self.is_async = False
            self.client = Client(**client)

    def question(self, request: HttpRequest) -> Question | None:
        forwarded = request.META.get("HTTP_X_FORWARDED_FOR")
        return self.rules.question(request, request.META.get("REMOTE_ADDR") or None, [forwarded] if forwarded else [])

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self.later(request)
        q = self.question(request)
        if q is None:
            return self.get_response(request)
        d = self.rules.ask(self.client, q)
        return self.answer(d, q, self.get_response(request) if d.allowed else self.denial(d))

    async def later(self, request: HttpRequest) -> HttpResponseBase:
        q = self.question(request)
        if q is None:
            return await self.get_response(request)
        d = await self.rules.ask_async(self.async_client, q)
        return self.answer(d, q, await self.get_response(request) if d.allowed else self.denial(d))

    def denial(self, d: Decision) -> HttpResponse:
        return HttpResponse(self.rules.problem(d), status=d.status, content_type=PROBLEM)

    def answer(self, d: Decision, q: Question, response: HttpResponseBase) -> HttpResponseBase:
        for name, value in self.rules.headers(d, q):
            response[name] = value
        return response
