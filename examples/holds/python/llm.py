import time
import uuid

import redis


class LimitedError(Exception):
    """A call wants more tokens than are left."""

    def __init__(self, limit, retry_ms):
        super().__init__(f"over {limit}, retry after {retry_ms} ms")
        self.retry_ms = retry_ms  # below 0: no wait helps


def stream(r, key, model, prompt_tokens, max_tokens, answer):
    """Passes an answer on while it comes. At its end, after an error, or when the reader
    leaves, it charges the tokens that the call has taken. The answer consists of pairs: a
    text, and the tokens that the call has taken up to there, with those of the prompt."""
    # With an ID, redis-py can repeat the command, and it still reserves only once.
    allowed, _, _, retry_ms, _, _, limit, _, hold, *_ = r.execute_command(
        "RL.RESERVE", "llm", "key", key, "model", model, "tokens", prompt_tokens + max_tokens, "ID", uuid.uuid4().hex)
    if not allowed:
        raise LimitedError(limit, retry_ms)
    took = 0
    try:
        for text, took in answer:
            yield text
    finally:
        if hold is not None:  # no hold if the policy answered without a leader
            settle(r, hold, took)


def settle(r, hold, tokens):
    """Settles the tokens that a call took. Repeats the command until it gets an answer:
    only the first settlement charges."""
    end = time.monotonic() + 30
    while True:
        try:
            return r.execute_command("RL.COMMIT", hold, "tokens", tokens)
        except redis.RedisError as error:
            if str(error).startswith("NOHOLD") or time.monotonic() > end:
                raise
        time.sleep(0.1)
