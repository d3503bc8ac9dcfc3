import contextlib
import uuid

import redis


class LimitedError(Exception):
    """That of an attempt after too many that failed."""

    def __init__(self, retry_ms):
        super().__init__(f"too many attempts, retry after {retry_ms} ms")
        self.retry_ms = retry_ms  # below 0 no wait helps


def attempt(r, user, ip, verify):
    """Checks a password, unless too many attempts have failed. Only that the password was
    right is told to Headgate: whatever else happens counts."""
    # With an ID redis-py may repeat it: it counts once.
    allowed, _, _, retry_ms, _, _, _, _, hold, *_ = r.execute_command(
        "RL.RESERVE", "login", "user", user, "ip", ip, "ID", uuid.uuid4().hex)
    if not allowed:
        raise LimitedError(retry_ms)
    if not verify():
        return False
    with contextlib.suppress(redis.RedisError):  # unheard, it is an attempt too many
        r.execute_command("RL.CANCEL", hold)
    return True
