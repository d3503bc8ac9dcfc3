import contextlib
import uuid

import redis


class LimitedError(Exception):
    """Too many attempts have failed before."""

    def __init__(self, retry_ms):
        super().__init__(f"too many attempts, retry after {retry_ms} ms")
        self.retry_ms = retry_ms  # below 0: no wait helps


def attempt(r, user, ip, verify):
    """Checks a password, unless too many attempts have failed. Tells Headgate only that a
    password was right: in all other cases the attempt stays charged."""
    # With an ID, redis-py can repeat the command, and it still counts only once.
    allowed, _, _, retry_ms, _, _, _, _, hold, *_ = r.execute_command(
        "RL.RESERVE", "login", "user", user, "ip", ip, "ID", uuid.uuid4().hex)
    if not allowed:
        raise LimitedError(retry_ms)
    if not verify():
        return False
    with contextlib.suppress(redis.RedisError):  # if this fails, the attempt counts
        r.execute_command("RL.CANCEL", hold)
    return True
