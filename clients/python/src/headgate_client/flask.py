"""Limits for Flask.

    RateLimit(app, client=Client("127.0.0.1:7379"), limit=Limit.per_minute(100))

Allowed and denied answers have the header fields of the limit. A denied request does not reach
its view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask

from ._http import PROBLEM, Question, Rule, Rules
from ._sync import Client
from ._values import Decision


class RateLimit:
    """The options are those of Rules; a request is Flask's."""

    def __init__(
        self, app: flask.Flask, client: Client, limit: Rule | Callable[[flask.Request], Rule | None], **options: Any
    ) -> None:
        self.client = client
        self.rules: Rules[flask.Request] = Rules(limit, **options)
        app.before_request(self.before)
        app.after_request(self.after)

    def before(self) -> flask.Response | None:
        request = flask.request
        q = self.rules.question(request, request.remote_addr, request.headers.getlist("X-Forwarded-For"))
        if q is None:
            return None
        d = self.rules.ask(self.client, q)
        flask.g.headgate = (d, q)
        if d.allowed:
            return None
        return flask.Response(self.rules.problem(d), d.status, content_type=PROBLEM)

    def after(self, response: flask.Response) -> flask.Response:
        decided: tuple[Decision, Question] | None = flask.g.pop("headgate", None)
        if decided is not None:
            for name, value in self.rules.headers(*decided):
                response.headers[name] = value
        return response
