import time

import redis
from redis.exceptions import ClusterDownError, TryAgainError


def charge(r, account, order, units, seconds=30):
    """Charges the units of an order to an account, and returns whether it has as many. It
    asks until it is answered, or the time is over: under the order's name they are charged
    once, by whichever try, of whichever process. So an order whose outcome is not known is
    charged by calling it again."""
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
    """Whether an error leaves open what became of a call: all do but the server's replies
    to one that is wrong."""
    return (not isinstance(error, redis.ResponseError) or isinstance(error, (ClusterDownError, TryAgainError))
            or str(error).startswith(("UNCERTAIN", "BUSY")))
