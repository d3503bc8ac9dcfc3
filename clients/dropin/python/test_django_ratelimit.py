"""A contract through django-ratelimit, whose own tests use no Redis.

It counts in Django's cache: with the backend that Django brings, and with
django-redis.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import django
import pytest
from django.conf import settings

URL = f"redis://{os.environ['DROPIN_HOST']}:{os.environ['DROPIN_PORT']}/1"

settings.configure(
    CACHES={
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": URL},
        "django-redis": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL},
    },
    SECRET_KEY="of tests",
    ALLOWED_HOSTS=["*"],
)
django.setup()

import redis  # noqa: E402
from django.core.cache import caches  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from django_ratelimit.core import get_usage  # noqa: E402
from django_ratelimit.decorators import ratelimit  # noqa: E402
from django_ratelimit.exceptions import Ratelimited  # noqa: E402


@pytest.fixture(params=["default", "django-redis"], autouse=True)
def cache(request):
    settings.RATELIMIT_USE_CACHE = request.param
    caches[request.param].clear()
    return caches[request.param]


def asks(address):
    return RequestFactory().get("/", REMOTE_ADDR=address)


@ratelimit(key="ip", rate="3/h", block=True)
def view(request):
    return HttpResponse("fine")


def admitted(address):
    try:
        return view(asks(address)).status_code == 200
    except Ratelimited:
        return False


def test_fourth_is_denied():
    assert [admitted("10.0.0.1") for _ in range(5)] == [True, True, True, False, False]
    assert admitted("10.0.0.2")


def test_counts():
    for count in (1, 2, 3):
        usage = get_usage(asks("10.0.0.1"), group="g", key="ip", rate="2/h", increment=True)
        assert usage["count"] == count
        assert usage["limit"] == 2
        assert usage["should_limit"] == (count > 2)
    assert get_usage(asks("10.0.0.1"), group="g", key="ip", rate="2/h")["count"] == 3, "a look does not count"


def test_window_ends():
    request = asks("10.0.0.1")
    get_usage(request, group="g", key="ip", rate="1/s", increment=True)
    time.sleep(1.1)
    assert get_usage(request, group="g", key="ip", rate="1/s", increment=True)["count"] == 1


def test_counters_expire():
    get_usage(asks("10.0.0.1"), group="g", key="ip", rate="5/m", increment=True)
    server = redis.from_url(URL)
    (key,) = server.keys("*")
    assert 0 < server.ttl(key) <= 65


def test_many_at_once():
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: admitted("10.0.0.1"), range(40))) == 3
