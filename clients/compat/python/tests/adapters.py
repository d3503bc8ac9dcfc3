"""One shape for the synchronous and the asyncio client, for the contract."""

import asyncio

import redis
import redis.asyncio


class Sync:
    """redis.Redis."""

    def __init__(self, endpoint, protocol):
        self.client = redis.Redis(**endpoint.options(), protocol=protocol, decode_responses=True)

    def run(self, *command):
        return self.client.execute_command(*command)

    def pipeline(self, commands):
        with self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return pipe.execute()

    def close(self):
        self.client.close()


class Async:
    """redis.asyncio.Redis, on an event loop of its own."""

    def __init__(self, endpoint, protocol):
        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis(**endpoint.options(), protocol=protocol, decode_responses=True)

    def run(self, *command):
        return self.loop.run_until_complete(self.client.execute_command(*command))

    def pipeline(self, commands):
        async def pipeline():
            async with self.client.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return await pipe.execute()

        return self.loop.run_until_complete(pipeline())

    def close(self):
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()
