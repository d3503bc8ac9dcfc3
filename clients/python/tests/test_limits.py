"""The storages for limits, and the libraries that use them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tarfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import redis
from limits import aio, parse, strategies
from limits.storage import storage_from_string
from load import App
from server import Server

import headgate_client.limits  # noqa: F401

THEIR_FILES = [f"tests/{f}.py" for f in ("test_storage", "test_strategy", "aio/test_storage", "aio/test_strategy")]
THEIR_FILES.append("tests/integration")
STRATEGIES = ["fixed-window", "moving-window", "sliding-window-counter"]


class Awaited:
    """An async limiter behind methods that block."""

    def __init__(self, limiter: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.limiter, self.loop = limiter, loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.limiter, name)
        return lambda *args, **kw: self.loop.run_until_complete(method(*args, **kw))


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies(kind: str, strategy: str, server: Server) -> None:
    loop = asyncio.new_event_loop()
    limiter: Any
    if kind == "sync":
        storage: Any = storage_from_string(f"headgate://{server.addr}", timeout=1)
        limiter = strategies.STRATEGIES[strategy](storage)
    else:
        storage = storage_from_string(f"async+headgate://{server.addr}", timeout=1)
        limiter = Awaited(aio.strategies.STRATEGIES[strategy](storage), loop)
    ten = parse("10 per hour")
    began = time.time()
    assert limiter.hit(ten, "user", "eve")
    assert limiter.get_window_stats(ten, "user", "eve").remaining == 9
    assert all(limiter.hit(ten, "user", "eve") for _ in range(8))
    assert limiter.test(ten, "user", "eve")
    assert not limiter.test(ten, "user", "eve", cost=2)
    assert limiter.hit(ten, "user", "eve")
    assert not limiter.hit(ten, "user", "eve")
    assert not limiter.test(ten, "user", "eve")
    time.sleep(0.06)  # the last decision answers nothing any more
    stats = limiter.get_window_stats(ten, "user", "eve")
    assert stats.remaining == 0
    assert began < stats.reset_time <= time.time() + 3601
    assert limiter.hit(ten, "user", "bob", cost=10)
    assert not limiter.hit(ten, "user", "bob", cost=1)
    limiter.clear(ten, "user", "eve")
    assert limiter.hit(ten, "user", "eve")
    if kind == "sync":
        assert storage.check()
    else:
        assert loop.run_until_complete(storage.check())
        loop.run_until_complete(storage.client.close())
    loop.close()


def test_a_storage_knows_nothing_of_another(server: Server) -> None:
    other = Server()
    try:
        ten = parse("10 per hour")
        for addr, cost in ((server.addr, 4), (other.addr, 1)):
            storage: Any = storage_from_string(f"headgate://{addr}", timeout=1)
            limiter = strategies.FixedWindowRateLimiter(storage)
            assert limiter.get_window_stats(ten, "k").remaining == 10
            assert limiter.hit(ten, "k", cost=cost)
            assert limiter.get_window_stats(ten, "k").remaining == 10 - cost
    finally:
        other.stop()


def test_an_outage_is_no_error() -> None:
    limiter = strategies.FixedWindowRateLimiter(storage_from_string("headgate://127.0.0.1:1"))  # type: ignore[arg-type]
    ten = parse("10 per minute")
    assert [limiter.hit(ten, "k") for _ in range(7)] == [True] * 2 + [False] * 5
    assert limiter.get_window_stats(ten, "k").remaining == 0
    assert not limiter.storage.check()


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_error_of_the_server_is_none_of_the_application(kind: str, strategy: str, server: Server) -> None:
    loop = asyncio.new_event_loop()
    ten = parse("10 per hour")
    with redis.Redis(port=server.port, retry=None) as r:
        r.lpush(ten.key_for("k"), "x")
    limiter: Any
    if kind == "sync":
        limiter = strategies.STRATEGIES[strategy](storage_from_string(f"headgate://{server.addr}", timeout=1))  # type: ignore[arg-type]
    else:
        storage: Any = storage_from_string(f"async+headgate://{server.addr}", timeout=1)
        limiter = Awaited(aio.strategies.STRATEGIES[strategy](storage), loop)
    assert limiter.get_window_stats(ten, "k").remaining == 2
    assert [limiter.hit(ten, "k") for _ in range(4)] == [True] * 2 + [False] * 2
    if kind == "async":
        loop.run_until_complete(storage.client.close())
    loop.close()


@pytest.mark.slow
def test_their_own_tests(server: Server, tmp_path: Path) -> None:
    """The tests of the library's storages and strategies, with ours. of_limits.py says what is left
    out."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(tmp_path)]
    subprocess.run([*pip, f"limits=={metadata.version('limits')}"], check=True)
    with tarfile.open(next(tmp_path.glob("limits-*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    sources = next(tmp_path.glob("limits-*/"))
    shutil.rmtree(sources / "limits")  # the installed one is tested
    shutil.copy(Path(__file__).parent / "of_limits.py", sources / "tests/conftest.py")
    path = f"{Path(__file__).parents[1] / 'src'}:{sources}"
    pytest_ = [
        sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(sources), "-q", "--disable-warnings", "-o",
        "cache_dir=.cache", *THEIR_FILES,
    ]  # fmt: skip
    # They assert times: on a busy machine one that fails gets a second run, as they run it.
    for again in ([], ["--last-failed"]):
        run = subprocess.run(
            [*pytest_, *again], cwd=sources, env={**os.environ, "HEADGATE": server.addr, "PYTHONPATH": path},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if run.returncode == 0:
            break
    assert run.returncode == 0, run.stdout
    assert again or "53 passed" in run.stdout, run.stdout


@pytest.mark.parametrize("name", ["flask_limiter", pytest.param("slowapi", marks=pytest.mark.slow)])
def test_documented_example(name: str, server: Server) -> None:
    app = App(name, HEADGATE=server.addr, UNITS="2", PERIOD="60", TIMEOUT="1")
    try:
        for left in ("1", "0"):
            status, fields, _ = app.get()
            assert status == 200, fields
            assert fields["x-ratelimit-limit"] == "2"
            assert fields["x-ratelimit-remaining"] == left
        status, fields, _ = app.get()
        assert status == 429
        assert fields["x-ratelimit-remaining"] == "0"
        assert 0 <= int(fields["retry-after"]) <= 61
        assert float(fields["x-ratelimit-reset"]) >= int(time.time())
        server.kill()
        assert app.get()[0] in (200, 429)
    finally:
        app.stop()
