"""Tells the tests of fakeredis that INFO has what TOLD says, name=value.

By it they know what a server has: CL.THROTTLE is a command of Dragonfly, INCREX of Redis 8.8.
"""

import os

import redis

name, value = os.environ["TOLD"].split("=")
info = redis.Redis.info
redis.Redis.info = lambda *args, **kwargs: {**info(*args, **kwargs), name: value}
