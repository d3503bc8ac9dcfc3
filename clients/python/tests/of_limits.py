"""Has the tests of the library limits run against our storages. test_limits.py puts this file in
the place of their conftest.py, which starts other servers in containers."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
import time
import types
from typing import Any

import limits.storage.base
import pytest
import redis

import headgate_client.limits

ADDR = os.environ["HEADGATE"]

# Tests that do not apply, and why.
LEFT_OUT = {
    "test_incr_custom_amount": "a hit that is denied takes nothing, so a count does not grow beyond the limit",
    "test_storage_reset": "the server forgets one key at a time: what other keys are the limiter's, nobody knows",
    "test_moving_window_huge_cost": "the server keeps 1000 entries of a moving window, and 8192 at most",
    "test_sliding_window_counter_previous_window": "the server says when the limit is full, not when its next hit is free",
}

# Windows of the server begin at multiples of the period, as those of storages that have the
# time in their keys.
limits.storage.base.TimestampedSlidingWindow = (  # type: ignore[assignment,misc]
    headgate_client.limits.Storage, headgate_client.limits.AsyncStorage,
)  # fmt: skip


def at_an_even_second(test: Any) -> Any:
    """So a test that uses up a window of two seconds is within one."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        time.sleep(2 - time.time() % 2)
        return asyncio.run(test(*args, **kwargs)) if inspect.iscoroutinefunction(test) else test(*args, **kwargs)

    return run


# Their parameters name fixtures by this package. Ours need none.
lazy = types.ModuleType("pytest_lazy_fixtures")
lazy.lf = lambda name: None  # type: ignore[attr-defined]
sys.modules["pytest_lazy_fixtures"] = lazy

import tests.utils  # noqa: E402

tests.utils.fixed_start = tests.utils.async_fixed_start = at_an_even_second


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> None:
    """Replaces the storages that a class of tests runs with."""
    for i, mark in enumerate(getattr(obj, "pytestmark", ())):
        if mark.name == "parametrize" and mark.args[0] in ("uri, args, fixture", "uri, args, expected_instance, fixture"):
            aio = collector.path.parent.name == "aio" or "Async" in collector.name
            values: list[Any] = ["async+headgate://" if aio else "headgate://", {"timeout": 1}]
            values[0] += ADDR
            if "expected_instance" in mark.args[0]:
                values.append(headgate_client.limits.AsyncStorage if aio else headgate_client.limits.Storage)
            obj.pytestmark[i] = pytest.mark.parametrize(mark.args[0], [pytest.param(*values, None, id="headgate")]).mark


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out, too, what does not run with a storage of ours."""
    ours = [i for i in items if i.name.endswith("[headgate]")]
    names = {i.name.removesuffix("[headgate]") for i in ours}
    assert names >= set(LEFT_OUT), f"no such tests: {set(LEFT_OUT) - names}"
    chosen = [i for i in ours if i.name.removesuffix("[headgate]") not in LEFT_OUT]
    config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
    items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    args = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**args))
    return True


@pytest.fixture(autouse=True)
def empty() -> None:
    host, _, port = ADDR.partition(":")
    with redis.Redis(host, int(port), retry=None) as r:
        r.flushall()
