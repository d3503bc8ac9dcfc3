import time
import uuid

import redis


class LimitedError(Exception):
    """That of a call for which there are not enough tokens."""

    def __init__(self, limit, retry_ms):
        super().__init__(f"over {limit}, retry after {retry_ms} ms")
        self.retry_ms = retry_ms  # below 0 no wait helps


def stream(r, key, model, prompt_tokens, max_tokens, answer):
    """Passes an answer on as it comes, and charges what it took, however it ends: also by
    an error, or by a reader who has gone. The answer is of pairs: a text, and the tokens
    that the call has taken up to there, the prompt's included."""
    # With an ID redis-py may repeat it: it holds once.
    allowed, _, _, retry_ms, _, _, limit, _, hold, *_ = r.execute_command(
        "RL.RESERVE", "llm", "key", key, "model", model, "tokens", prompt_tokens + max_tokens, "ID", uuid.uuid4().hex)
    if not allowed:
        raise LimitedError(limit, retry_ms)
    took = 0
    try:
        for text, took in answer:
            yield text
    finally:
        if hold is not None:  # there is none if the policy answered without a leader
            settle(r, hold, took)


def settle(r, hold, tokens):
    """Tells what a call took until it is answered: the first settlement stands, and to
    repeat it charges nothing."""
    end = time.monotonic() + 30
    while True:
        try:
            return r.execute_command("RL.COMMIT", hold, "tokens", tokens)
        except redis.RedisError as error:
            if str(error).startswith("NOHOLD") or time.monotonic() > end:
                raise
        time.sleep(0.1)
