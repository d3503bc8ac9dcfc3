"""The client for asyncio."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from . import _redis
from ._core import Attributes, Core, KeyLimit, Stats
from ._fork import after_fork
from ._ops import Args, Failure, Join, Send, SendAll, Sleep, Start, Steps
from ._values import SECOND, Decision, Limit, OnFailure, Policy

if TYPE_CHECKING:
    Handed = redis.asyncio.Redis

T = TypeVar("T")


async def within(steps: Coroutine[Any, Any, None], deadline: int) -> BaseException | None:
    """Runs steps until the deadline, and returns their error. It does not wait for them to end:
    asyncio.wait_for of Python 3.11 may lose a cancellation."""
    task = asyncio.get_running_loop().create_task(steps)
    try:
        await asyncio.wait((task,), timeout=max((deadline - time.monotonic_ns()) / SECOND, 0))
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(lambda t: None if t.cancelled() else t.exception() and None)
    if not task.done():
        return RedisTimeoutError("the deadline has passed")
    return asyncio.CancelledError() if task.cancelled() else task.exception()


class Attempt:
    """A connection that is being made by a task of its own. It goes on if its caller gives up."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.task: asyncio.Task[tuple[int, AbstractConnection]]


class Connections:
    """Connections to the first address that answers."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.pools = [redis.asyncio.ConnectionPool.from_url(u, **_redis.options()) for u in urls]
        self.current = 0
        self.forget()

    def forget(self) -> None:
        """Drops connections of another process or loop."""
        self.idle: list[tuple[int, AbstractConnection]] = []
        self.orphans: list[Attempt] = []
        self.closed = False

    async def send(self, commands: list[Args], deadline: int) -> list[Any]:
        got = await self.take(deadline)
        if isinstance(got, Failure):
            return [got] * len(commands)
        where, connection = got
        results: list[Any] = []
        try:
            error = await within(self.exchange(connection, commands, results), deadline)
        except asyncio.CancelledError:
            abandon(connection)
            raise
        if error is None:
            await self.give(where, connection)
        else:
            abandon(connection)
            await self.moved(where)
            results.append(_redis.failure(error, True))
        if len(results) < len(commands):
            results += [Failure("the connection broke", True)] * (len(commands) - len(results))
        return results

    async def exchange(self, connection: AbstractConnection, commands: list[Args], results: list[Any]) -> None:
        if len(commands) > 1:
            await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        else:
            await connection.send_packed_command(connection.pack_command(*commands[0]), check_health=False)
        for _ in commands:
            try:
                results.append(await connection.read_response(timeout=math.inf))
            except ResponseError as e:
                results.append(_redis.failure(e, True))
            except AuthenticationError as e:
                results.append(_redis.failure(e, True))
                await drop(connection)
                return

    async def take(self, deadline: int) -> tuple[int, AbstractConnection] | Failure:
        while self.idle:
            where, connection = self.idle.pop()
            if await usable(connection):
                return where, connection
            await drop(connection)
        attempt = None
        while self.orphans and attempt is None:
            attempt = self.orphans.pop()
            if time.monotonic() - attempt.began > _redis.CONNECT:
                attempt = None
        if attempt is None:
            attempt = Attempt()
            attempt.task = asyncio.get_running_loop().create_task(self.connect())
        try:
            await asyncio.wait((attempt.task,), timeout=max((deadline - time.monotonic_ns()) / SECOND, 0))
        except asyncio.CancelledError:
            self.leave(attempt)
            raise
        if not attempt.task.done():
            self.leave(attempt)
            return Failure("no connection in time", False)
        if attempt.task.cancelled():
            return Failure("no connection: the task was cancelled", False)
        error = attempt.task.exception()
        if error is None:
            return attempt.task.result()
        reply = _redis.failure(error, False)
        return reply if isinstance(reply, Failure) else Failure(reply.text, False)

    def leave(self, attempt: Attempt) -> None:
        """Leaves an attempt to the next caller."""
        self.orphans.append(attempt)

        def ended(task: asyncio.Task[tuple[int, AbstractConnection]]) -> None:
            if attempt in self.orphans:
                self.orphans.remove(attempt)
                if not task.cancelled() and task.exception() is None:
                    where, connection = task.result()
                    if self.closed:
                        abandon(connection)
                    else:
                        self.idle.append((where, connection))

        attempt.task.add_done_callback(ended)

    async def connect(self) -> tuple[int, AbstractConnection]:
        error: Exception | None = None
        first = self.current
        for i in range(len(self.pools)):
            where = (first + i) % len(self.pools)
            connection = self.pools[where].make_connection()
            try:
                await connection.connect()
            except Exception as e:
                await drop(connection)
                error = e
            else:
                self.current = where
                return where, connection
        assert error is not None
        raise error

    async def give(self, where: int, connection: AbstractConnection) -> None:
        if not self.closed and len(self.idle) < _redis.IDLE and where == self.current and connection.is_connected:
            self.idle.append((where, connection))
        else:
            await drop(connection)

    async def moved(self, where: int) -> None:
        """After a failure, the next connection goes to the next address."""
        if len(self.pools) == 1 or where != self.current:
            return
        self.current = (where + 1) % len(self.pools)
        idle, self.idle = self.idle, []
        for _, connection in idle:
            await drop(connection)

    async def close(self) -> None:
        self.closed = True
        for attempt in self.orphans:
            attempt.task.cancel()
        idle, self.idle = self.idle, []
        for _, connection in idle:
            await drop(connection)


async def usable(connection: AbstractConnection) -> bool:
    """Reports whether the server has neither closed a connection nor said something unasked."""
    try:
        return connection.is_connected and not await connection.can_read()
    except (RedisError, OSError, RuntimeError):
        return False


async def drop(connection: AbstractConnection) -> None:
    try:
        await connection.disconnect(nowait=True)
    except (RedisError, OSError, RuntimeError):
        pass  # it is gone


def abandon(connection: AbstractConnection) -> None:
    """Closes a connection without waiting."""
    writer = getattr(connection, "_writer", None)
    if writer is not None:
        writer.transport.abort()


class HandedOver:
    """A client of the application."""

    def __init__(self, client: Handed, timeout: float) -> None:
        _redis.warn(client, timeout)
        self.client = client

    def forget(self) -> None:
        pass

    async def send(self, commands: list[Args], deadline: int) -> list[Any]:
        results: list[Any] = []
        error = await within(self.execute(commands, results), deadline)
        return results if error is None else [_redis.failure(error, True)] * len(commands)

    async def execute(self, commands: list[Args], results: list[Any]) -> None:
        if len(commands) == 1:
            results.append(await self.client.execute_command(*commands[0]))
            return
        pipe = self.client.pipeline(transaction=False)
        for args in commands:
            pipe.execute_command(*args)
        replies = await pipe.execute(raise_on_error=False)
        results += [_redis.failure(r, True) if isinstance(r, Exception) else r for r in replies]

    async def close(self) -> None:
        pass  # it is the application's


class Sender(Protocol):
    async def send(self, commands: list[Args], deadline: int) -> list[Any]: ...
    def forget(self) -> None: ...
    async def close(self) -> None: ...


class Tasks:
    """The runtime of the client: tasks and timers of one loop."""

    def __init__(self, run: Callable[[Steps[None]], Coroutine[Any, Any, None]]) -> None:
        self.run = run
        self.loop: asyncio.AbstractEventLoop | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    def now(self) -> int:
        return time.monotonic_ns()

    def random(self) -> float:
        return random.random()

    def later(self, delay: int, call: Callable[[], None]) -> None:
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_later(delay / SECOND, call)

    def background(self, steps: Steps[None]) -> None:
        if self.loop is not None and not self.loop.is_closed():
            task = self.loop.create_task(self.run(steps))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


class AsyncClient:
    """Asks a Headgate server, or decides without it. Its methods run in an event loop. The
    arguments are those of Client; a client that is handed over is a ``redis.asyncio.Redis``."""

    def __init__(
        self, server: str | Sequence[str] | Handed = "127.0.0.1:7379", *, timeout: float = 0.05, processes: int = 0,
        leases: bool = True, lease_ttl: float = 2.0,
    ) -> None:  # fmt: skip
        self._tasks = Tasks(self._run)
        self._core = Core(self._tasks, timeout=timeout, processes=processes, leases=leases, lease_ttl=lease_ttl)
        self._sender: Sender
        if isinstance(server, redis.asyncio.Redis) or hasattr(server, "execute_command"):
            self._sender = HandedOver(server, timeout)  # type: ignore[arg-type]
        else:
            self._sender = Connections(_redis.urls(server))
        after_fork(self)

    def _forked(self) -> None:
        self._tasks.loop = None
        self._tasks.tasks = set()
        self._sender.forget()
        self._core.forked()

    def _bind(self) -> None:
        """Starts afresh in another loop: connections and timers belong to one."""
        loop = asyncio.get_running_loop()
        if loop is not self._tasks.loop:
            if self._tasks.loop is not None:
                self._sender.forget()
                self._core.moved()
            self._tasks.loop = loop

    async def _run(self, steps: Steps[T]) -> T:
        """Carries out the steps of a verb."""
        result: Any = None
        try:
            while True:
                op = steps.send(result)
                try:
                    result = await self._do(op)
                except BaseException as e:
                    steps.throw(e)
                    raise
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _do(self, op: Send | SendAll | Sleep | Join | Start) -> Any:
        if isinstance(op, Send):
            return (await self._sender.send([op.args], op.deadline))[0]
        if isinstance(op, SendAll):
            return await self._sender.send(op.commands, op.deadline)
        if isinstance(op, Start):
            return self._tasks.background(op.steps)
        if isinstance(op, Sleep):
            return await asyncio.sleep(op.time / SECOND)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._core.attach(op.waiter, lambda: None if done.done() else done.set_result(None)):
            await asyncio.wait((done,), timeout=max((op.deadline - time.monotonic_ns()) / SECOND, 0))
        return None

    def try_allow(self, key: str, limit: Limit, cost: int = 1) -> Decision | None:
        """Decides at once, without the server: from a lease, by a remembered denial, or by the
        failure policy while the server is away. None means that the server must be asked."""
        if asyncio.get_running_loop() is not self._tasks.loop:
            self._bind()
        return self._core.try_allow(key, limit, cost)

    async def allow(self, key: str, limit: Limit, cost: int = 1) -> Decision:
        """Asks for cost units of a key's limit."""
        d = self.try_allow(key, limit, cost)
        return await self._run(self._core.ask(key, limit, cost)) if d is None else d

    async def peek(self, key: str, limit: Limit, cost: int = 1) -> Decision:
        """Says what allow would answer, and takes nothing."""
        self._bind()
        return await self._run(self._core.peek(key, limit, cost))

    async def wait(self, key: str, limit: Limit, cost: int = 1, at_most: float | None = None) -> Decision:
        """Asks until the call is allowed. A wait beyond at_most seconds is a denial at once."""
        self._bind()
        return await self._run(self._core.wait(key, limit, cost, at_most))

    async def refund(self, key: str, limit: Limit, cost: int = 1) -> Decision:
        """Gives units back. It does nothing while the server is away."""
        self._bind()
        return await self._run(self._core.refund(key, limit, cost))

    async def all(self, limits: Iterable[KeyLimit]) -> Decision:
        """Asks for several limits in one step: all of them are charged, or none."""
        self._bind()
        return await self._run(self._core.all(limits))

    async def check(
        self, policy: Policy | str, attributes: Attributes | None = None, cost: int = 1, id: str | None = None
    ) -> Decision:
        """Asks a policy of the server."""
        self._bind()
        return await self._run(self._core.check(policy, attributes, cost, id))

    async def reserve(
        self, policy: Policy | str, attributes: Attributes | None = None, cost: int = 1, ttl: float | None = None
    ) -> AsyncReservation:
        """Asks a policy, and holds what it charges until the real cost is known."""
        self._bind()
        return AsyncReservation(self, await self._run(self._core.reserve(policy, attributes, cost, ttl)))

    async def acquire(
        self, key: str, slots: int, ttl: float, cost: int = 1, on_failure: OnFailure = "local"
    ) -> AsyncSlot:
        """Takes cost of a key's slots, for ttl seconds at most."""
        self._bind()
        return AsyncSlot(self, key, *await self._run(self._core.acquire(key, slots, ttl, cost, on_failure)))

    async def reset(self, key: str) -> None:
        """Makes a key's limits full again. It raises UnavailableError if the server is away."""
        self._bind()
        await self._run(self._core.reset(key))

    @property
    def state(self) -> str:
        """The breaker's state: closed, or open while the server is away."""
        return "open" if self._core.open else "closed"

    def stats(self) -> Stats:
        return self._core.stats()

    async def close(self) -> None:
        """Gives leased units back. Later calls raise ClosedError."""
        self._bind()
        if self._core.close():
            if self._tasks.tasks:
                await asyncio.wait(set(self._tasks.tasks), timeout=self._core.timeout / SECOND * 2)
            for task in list(self._tasks.tasks):
                task.cancel()
            await self._sender.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncReservation:
    """A call whose real cost is not known yet."""

    def __init__(self, client: AsyncClient, decision: Decision) -> None:
        self._client = client
        self.decision = decision

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    async def commit(self, cost: int = 1) -> Decision:
        """Settles the real cost. It does nothing if the server did not decide the call."""
        return await self._client._run(self._client._core.settle(self.decision.hold, cost))

    async def cancel(self) -> Decision:
        """Settles a call that cost nothing."""
        return await self._client._run(self._client._core.settle(self.decision.hold, None))


class AsyncSlot:
    """Slots of a key. As a context manager it releases them at the end."""

    def __init__(self, client: AsyncClient, key: str, decision: Decision, id: str | None) -> None:
        self._client, self._key = client, key
        self._released = False
        self.decision, self.id = decision, id

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    async def release(self) -> None:
        if not self._released:
            self._released = True
            await self._client._run(self._client._core.release(self._key, self.id))

    async def __aenter__(self) -> AsyncSlot:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()
