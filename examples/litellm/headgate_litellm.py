"""A callback of the LiteLLM proxy. Before a call it reserves the tokens of the prompt and the
most that the answer can take. After the call it settles what the call took."""

import asyncio
import math
import os
import time
import uuid

import litellm
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

ANSWER = 4096  # reserved for the answer, if the request has no max_tokens


class Headgate(CustomLogger):
    def __init__(self):
        super().__init__()
        # With an ID, redis-py can repeat the command, and it still reserves only once.
        self.redis = Redis.from_url(os.environ.get("HEADGATE_URL", "redis://127.0.0.1:7379"), protocol=2,
                                    decode_responses=True, retry=Retry(ExponentialBackoff(cap=0.2, base=0.05), 3))

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        if "messages" not in data:
            return  # such as embeddings: without a limit
        answer = data.get("max_completion_tokens") or data.get("max_tokens") or ANSWER
        tokens = litellm.token_counter(model=data["model"], messages=data["messages"]) + answer
        allowed, _, _, retry_ms, _, _, limit, _, hold, *_ = await self.redis.execute_command(
            "RL.RESERVE", "llm", "key", user_api_key_dict.api_key, "model", data["model"], "tokens", tokens,
            "ID", uuid.uuid4().hex)
        if not allowed:
            wait = {} if retry_ms < 0 else {"retry-after": str(math.ceil(retry_ms / 1000))}
            raise HTTPException(429, f"over the limit {limit}", wait)
        data.setdefault("metadata", {})["headgate_hold"] = hold  # None: there is nothing to settle

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        await self.settle(kwargs["litellm_params"].get("metadata"), response_obj.usage.total_tokens)

    # Once for a request, after LiteLLM's retries and fallbacks.
    async def async_post_call_failure_hook(self, request_data, original_exception, user_api_key_dict, traceback_str=None):
        await self.settle(request_data.get("metadata"), 0)

    async def settle(self, metadata, tokens):
        """Settles the tokens that a call took. Repeats the command until it gets an answer:
        only the first settlement charges."""
        hold = (metadata or {}).get("headgate_hold")
        if hold is None:
            return
        end = time.monotonic() + 30
        while True:
            try:
                return await self.redis.execute_command("RL.COMMIT", hold, "tokens", tokens)
            except RedisError as error:
                if str(error).startswith("NOHOLD") or time.monotonic() > end:
                    raise
            await asyncio.sleep(0.1)


headgate = Headgate()
