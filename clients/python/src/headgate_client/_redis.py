"""What the sync and the async client share of redis-py: options, warnings and errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Final

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ._ops import ErrorReply, Failure

log = logging.getLogger("headgate_client")

# How long each step of a connection may take. No call waits for it longer than its timeout.
CONNECT: Final = 2.0
# Connections that are kept.
IDLE: Final = 64

try:
    VERSION = metadata.version("headgate-client")
except metadata.PackageNotFoundError:  # not installed: a test of the sources
    VERSION = "0"


def options() -> dict[str, Any]:
    """Returns the options of the connections that this package makes: nothing is sent twice,
    and nothing waits without end."""
    from redis import DriverInfo

    return {
        "retry": None,
        "retry_on_timeout": False,
        "retry_on_error": [],
        "socket_timeout": CONNECT,
        "socket_connect_timeout": CONNECT,
        "health_check_interval": 0,
        "protocol": 3,
        "driver_info": DriverInfo(name="headgate-py", lib_version=VERSION),
    }


def urls(server: str | Sequence[str]) -> list[str]:
    """Returns addresses as URLs: a host and port is one of redis://."""
    each = [server] if isinstance(server, str) else list(server)
    if not each:
        raise ValueError("there is no address of a server")
    return [u if re.match(r"[a-z]+://", u) else f"redis://{u}" for u in each]


def warn(client: Any, timeout: float) -> list[str]:
    """Says what of a client that the application hands over would hurt."""
    kwargs = getattr(getattr(client, "connection_pool", None), "connection_kwargs", None)
    found: list[str] = []
    if kwargs is None:
        found.append(f"the options of {type(client).__name__} are not known: it must not retry, and needs socket timeouts")
        kwargs = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    retry: Any = kwargs.get("retry")
    retries = retry.get_retries() if retry is not None else 0
    if retries or kwargs.get("retry_on_timeout") or kwargs.get("retry_on_error"):
        found.append("it sends commands again, and each is charged: use retry=None, and no retry_on_error or retry_on_timeout")
    for name in ("socket_timeout", "socket_connect_timeout"):
        value = kwargs.get(name)
        if value is None or value > timeout * 2:
            found.append(f"a call may wait for {name}={value}: use {timeout}")
    for each in found:
        log.warning("the redis-py client was handed over: %s", each)
    return found


def failure(e: BaseException, sent: bool) -> ErrorReply | Failure:
    """Turns an exception of redis-py into a result. sent reports whether the command may have
    reached the server."""
    code = getattr(e, "status_code", None)
    if isinstance(e, ResponseError) or code and isinstance(e, RedisError):
        # redis-py cuts the codes off that it knows.
        said = str(e)
        return ErrorReply(f"{code} {said}" if code and not said.startswith(f"{code} ") else said)
    if isinstance(e, RedisTimeoutError):
        return Failure(f"no reply in time: {e}", sent)
    if isinstance(e, (RedisConnectionError, OSError)):
        return Failure(f"no connection: {e}", sent)
    return Failure(f"{type(e).__name__}: {e}", sent)
