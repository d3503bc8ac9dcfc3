import time

import redis
from redis.exceptions import ClusterDownError, TryAgainError


def charge(r, account, order, units, seconds=30):
    """Charges the units of an order to an account, and returns whether the account had
    enough. Repeats the call until it gets an answer or the time is over. Under the name of
    the order the units are charged only once, even by several processes. So if the outcome
    of an order is not known, call charge again."""
    end = time.monotonic() + seconds
    while True:
        try:
            allowed, *_ = r.execute_command("RL.CHECK", "billing", "account", account, "COST", units, "ID", order)
            return allowed == 1
        except redis.RedisError as error:
            if not unknown(error) or time.monotonic() > end:
                raise
        time.sleep(0.1)


def unknown(error):
    """Reports whether the outcome of a call is unknown after this error. That is true for
    all errors except those with which the server refuses a wrong call."""
    return (not isinstance(error, redis.ResponseError) or isinstance(error, (ClusterDownError, TryAgainError))
            or str(error).startswith(("UNCERTAIN", "BUSY")))
