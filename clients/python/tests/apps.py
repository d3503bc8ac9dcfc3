"""The applications of the tests, each as its framework's documents write one. The environment
says where Headgate is: python apps.py NAME PORT."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headgate_client import AsyncClient, Client, Limit, Policy

ADDRESSES = os.environ.get("HEADGATE", "127.0.0.1:7379")
SERVER = ADDRESSES.split(",")
LIMIT = Limit(
    int(os.environ.get("UNITS", "5")), float(os.environ.get("PERIOD", "3600")),
    on_failure=os.environ.get("ON_FAILURE", "local"),  # type: ignore[arg-type]
)  # fmt: skip
RULES: Any = {"limit": Policy(os.environ["POLICY"], LIMIT.on_failure) if "POLICY" in os.environ else LIMIT}
if "PROXIES" in os.environ:
    RULES["trusted_proxies"] = os.environ["PROXIES"].split()
OPTIONS: Any = {
    "processes": int(os.environ.get("PROCESSES", "0")),
    "leases": os.environ.get("LEASES", "1") == "1",
    "timeout": float(os.environ.get("TIMEOUT", "0.05")),
}


def fastapi_app() -> Any:
    from fastapi import FastAPI

    from headgate_client.asgi import RateLimit

    client = AsyncClient(SERVER, **OPTIONS)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await client.close()

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(RateLimit, client=client, **RULES)

    @app.get("/")
    async def root() -> dict[str, str]:
        return {"message": "hello"}

    return app


def starlette_app() -> Any:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from headgate_client.asgi import RateLimit

    async def root(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    client = AsyncClient(SERVER, **OPTIONS)
    return Starlette(routes=[Route("/", root)], middleware=[Middleware(RateLimit, client=client, **RULES)])


def bare_app() -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
            await send({"type": "http.response.body", "body": b"hello"})

    return app


def flask_app() -> Any:
    from flask import Flask

    from headgate_client.flask import RateLimit

    app = Flask(__name__)
    RateLimit(app, client=Client(SERVER, **OPTIONS), **RULES)

    @app.get("/")
    def root() -> str:
        return "hello"

    return app


def django_settings() -> None:
    from django.conf import settings

    settings.configure(
        ALLOWED_HOSTS=["*"], ROOT_URLCONF="apps", SECRET_KEY="of the tests",
        MIDDLEWARE=["headgate_client.django.RateLimit"],
        HEADGATE={"server": SERVER, **RULES, **OPTIONS},
    )  # fmt: skip
    import django
    from django.http import HttpRequest, HttpResponse
    from django.urls import path

    def root(request: HttpRequest) -> HttpResponse:
        return HttpResponse("hello")

    sys.modules["apps"] = sys.modules[__name__]
    globals()["urlpatterns"] = [path("", root)]
    django.setup()


def django_app() -> Any:
    django_settings()
    from django.core.wsgi import get_wsgi_application

    return get_wsgi_application()


def django_asgi_app() -> Any:
    django_settings()
    from django.core.asgi import get_asgi_application

    return get_asgi_application()


def flask_limiter_app() -> Any:
    """The first example of Flask-Limiter's documents."""
    from flask import Flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    import headgate_client.limits  # noqa: F401

    app = Flask(__name__)
    limiter = Limiter(
        get_remote_address, app=app, default_limits=["200 per day", "50 per hour"],
        storage_uri=f"headgate://{ADDRESSES}", headers_enabled=True, storage_options={"timeout": OPTIONS["timeout"]},
    )  # fmt: skip

    @app.route("/")
    @limiter.limit(f"{LIMIT.units} per {int(LIMIT.period_ms / 1000)} second")
    def slow() -> str:
        return "24"

    @app.route("/ping")
    @limiter.exempt
    def ping() -> str:
        return "PONG"

    return app


def slowapi_app() -> Any:
    """The first example of slowapi's documents, for FastAPI."""
    from fastapi import FastAPI
    from slowapi import Limiter, _rate_limit_exceeded_handler
    from slowapi.errors import RateLimitExceeded
    from slowapi.util import get_remote_address
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response

    import headgate_client.limits  # noqa: F401

    limiter = Limiter(
        key_func=get_remote_address, storage_uri=f"headgate://{ADDRESSES}", headers_enabled=True,
        storage_options={"timeout": OPTIONS["timeout"]},
    )  # fmt: skip
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type]

    async def homepage(request: Request) -> Response:
        return PlainTextResponse("test")

    homepage.__annotations__["request"] = Request  # names of this function's imports
    app.get("/")(limiter.limit(f"{LIMIT.units}/{int(LIMIT.period_ms / 1000)} second")(homepage))
    return app


def note_late(path: str) -> None:
    """Notes when this process was not run in time: when, and by how much."""
    with open(path, "a", buffering=1) as f:
        while True:
            began = time.monotonic()
            time.sleep(0.002)
            ended = time.monotonic()
            if ended - began > 0.004:
                f.write(f"{ended} {ended - began - 0.002}\n")


ASGI = ("bare", "fastapi", "starlette", "django_asgi", "slowapi")


def main() -> None:
    name, port = sys.argv[1], int(sys.argv[2])
    threading.Thread(target=note_late, args=(os.environ["LATE"],), daemon=True).start()
    app = globals()[f"{name}_app"]()
    if name in ASGI:
        import uvicorn

        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", lifespan="auto")
    else:
        from werkzeug.serving import WSGIRequestHandler, make_server

        WSGIRequestHandler.protocol_version = "HTTP/1.1"
        WSGIRequestHandler.log_request = lambda *args: None  # type: ignore[method-assign]
        make_server("127.0.0.1", port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
