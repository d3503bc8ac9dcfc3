import contextlib
import threading
import time

import redis


class LimitedError(Exception):
    """There is no slot or no quota for an export."""

    def __init__(self, limit, retry_ms):
        super().__init__(f"over {limit}, retry after {retry_ms} ms")
        self.retry_ms = retry_ms  # a slot may be free sooner; below 0: no wait helps


def run(r, tenant, job, ttl, export):
    """Runs an export in a slot, and keeps the slot while the export runs. ttl is the ttl of
    the policy, in seconds. job is the name of the export: if its process dies and the job is
    run again, it still has its slot and is not charged again. export gets an event that is
    set if the slot is lost."""
    hold = take(r, tenant, job)
    done, lost = threading.Event(), threading.Event()
    renewing = threading.Thread(target=renew, args=(r, tenant, job, ttl, done, lost))
    renewing.start()
    try:
        return export(lost)
    finally:
        done.set()
        renewing.join()  # a renewal after the commit would take a new slot
        with contextlib.suppress(redis.RedisError):  # if this fails, the slot ends after its ttl
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
    """Takes a slot for a job, or renews the slot that the job has."""
    allowed, _, _, retry_ms, _, _, limit, _, hold, *_ = r.execute_command(
        "RL.CHECK", "exports", "tenant", tenant, "ID", job)
    if not allowed:
        raise LimitedError(limit, retry_ms)
    return hold
