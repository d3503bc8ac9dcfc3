import contextlib
import threading
import time

import redis


class LimitedError(Exception):
    """That of an export for which there is no slot, or no quota."""

    def __init__(self, limit, retry_ms):
        super().__init__(f"over {limit}, retry after {retry_ms} ms")
        self.retry_ms = retry_ms  # at most, as a slot may be free sooner; below 0 no wait helps


def run(r, tenant, job, ttl, export):
    """Does an export in a slot, which it keeps for as long as that takes; ttl is that of
    the policy, in seconds. job names it: a job that is run again, as its process has died,
    has its slot and its place in the quota still. export is given an event that is set
    when the slot was lost."""
    hold = take(r, tenant, job)
    done, lost = threading.Event(), threading.Event()
    renewing = threading.Thread(target=renew, args=(r, tenant, job, ttl, done, lost))
    renewing.start()
    try:
        return export(lost)
    finally:
        done.set()
        renewing.join()  # behind the commit it would take a slot anew
        with contextlib.suppress(redis.RedisError):  # unheard, the slot ends by itself
            r.execute_command("RL.COMMIT", hold)


def renew(r, tenant, job, ttl, done, lost):
    """Keeps the slot of a job until it is done, or the slot is lost."""
    renewed = time.monotonic()
    while not done.wait(ttl / 4):
        try:
            take(r, tenant, job)
            renewed = time.monotonic()
        except LimitedError:
            lost.set()
            return
        except redis.RedisError:
            if time.monotonic() - renewed > ttl:
                lost.set()
                return


def take(r, tenant, job):
    """Takes the slot of a job, or gives it its time anew."""
    allowed, _, _, retry_ms, _, _, limit, _, hold, *_ = r.execute_command(
        "RL.CHECK", "exports", "tenant", tenant, "ID", job)
    if not allowed:
        raise LimitedError(limit, retry_ms)
    return hold
