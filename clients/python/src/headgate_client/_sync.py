"""The client for threads."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import redis
from redis.connection import ConnectionInterface
from redis.exceptions import RedisError

from . import _redis
from ._core import Attributes, Core, KeyLimit, Stats
from ._fork import after_fork
from ._ops import Args, Failure, Join, Send, SendAll, Sleep, Start, Steps
from ._values import SECOND, Decision, Limit, OnFailure, Policy

if TYPE_CHECKING:
    Handed = redis.Redis

T = TypeVar("T")


class Attempt:
    """A connection that is being made by a thread of its own: a name server that hangs holds
    nobody up."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.ended = threading.Event()
        self.connection: ConnectionInterface | None = None
        self.error: BaseException | None = None
        self.given_up = False  # its caller does not wait any more


class Connections:
    """Connections to the first address that answers."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.pools = [redis.ConnectionPool.from_url(u, **_redis.options()) for u in urls]
        self.current = 0
        self.forget()

    def forget(self) -> None:
        """Drops the connections of the parent of a forked child."""
        self.lock = threading.Lock()
        self.idle: list[tuple[int, ConnectionInterface]] = []
        self.orphans: list[Attempt] = []
        self.closed = False

    def send(self, commands: list[Args], deadline: int) -> list[Any]:
        got = self.take(deadline)
        if isinstance(got, Failure):
            return [got] * len(commands)
        where, connection = got
        results: list[Any] = []
        sent = False
        try:
            packed = connection.pack_commands(commands) if len(commands) > 1 else connection.pack_command(*commands[0])
            sent = True
            connection.send_packed_command(packed, check_health=False)
            for _ in commands:
                left = max((deadline - time.monotonic_ns()) / SECOND, 0.0001)
                try:
                    results.append(connection.read_response(timeout=left))
                except redis.ResponseError as e:
                    results.append(_redis.failure(e, True))
                except redis.AuthenticationError as e:
                    results.append(_redis.failure(e, True))
                    connection.disconnect()
                    break
        except (RedisError, OSError, ValueError, AttributeError) as e:
            # Another thread's fork or close may have taken the socket away.
            connection.disconnect()
            self.moved(where)
            results.append(_redis.failure(e, sent))
        except BaseException:
            connection.disconnect()
            raise
        else:
            self.give(where, connection)
        if len(results) < len(commands):
            results += [Failure("the connection broke", True)] * (len(commands) - len(results))
        return results

    def take(self, deadline: int) -> tuple[int, ConnectionInterface] | Failure:
        attempt = None
        with self.lock:
            while self.idle:
                where, connection = self.idle.pop()
                if usable(connection):
                    return where, connection
                connection.disconnect()
            while self.orphans and attempt is None:
                attempt = self.orphans.pop()
                if time.monotonic() - attempt.began > _redis.CONNECT:
                    attempt = None
                else:
                    attempt.given_up = False
        if attempt is None:
            attempt = Attempt()
            try:
                threading.Thread(target=self.connect, args=(attempt,), name="headgate-connect", daemon=True).start()
            except RuntimeError as e:  # no thread can be started: the process ends
                return Failure(f"no connection: {e}", False)
        attempt.ended.wait(max((deadline - time.monotonic_ns()) / SECOND, 0))
        with self.lock:
            if attempt.connection is not None:
                connection, attempt.connection = attempt.connection, None
                return self.current, connection
            if attempt.error is None:
                attempt.given_up = True
                self.orphans.append(attempt)
                return Failure("no connection in time", False)
        reply = _redis.failure(attempt.error, False)
        return reply if isinstance(reply, Failure) else Failure(reply.text, False)

    def connect(self, attempt: Attempt) -> None:
        error: BaseException | None = None
        first = self.current
        for i in range(len(self.pools)):
            where = (first + i) % len(self.pools)
            connection = self.pools[where].make_connection()
            try:
                connection.connect()
            except BaseException as e:
                connection.disconnect()
                error = e
                continue
            with self.lock:
                self.current = where
                if attempt.given_up:
                    if attempt in self.orphans:
                        self.orphans.remove(attempt)
                    if not self.closed:
                        self.idle.append((where, connection))
                    else:
                        connection.disconnect()
                else:
                    attempt.connection = connection
                attempt.ended.set()
            return
        with self.lock:
            attempt.error = error
            if attempt in self.orphans:
                self.orphans.remove(attempt)
            attempt.ended.set()

    def give(self, where: int, connection: ConnectionInterface) -> None:
        with self.lock:
            if not self.closed and len(self.idle) < _redis.IDLE and where == self.current and connection.is_connected:
                self.idle.append((where, connection))
                return
        connection.disconnect()

    def moved(self, where: int) -> None:
        """After a failure, the next connection goes to the next address."""
        with self.lock:
            if len(self.pools) == 1 or where != self.current:
                return
            self.current = (where + 1) % len(self.pools)
            idle, self.idle = self.idle, []
        for _, connection in idle:
            connection.disconnect()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            idle, self.idle = self.idle, []
        for _, connection in idle:
            connection.disconnect()


def usable(connection: ConnectionInterface) -> bool:
    """Reports whether the server has neither closed a connection nor said something unasked."""
    try:
        return not connection.can_read(0)
    except (RedisError, OSError, ValueError):
        return False


class HandedOver:
    """A client of the application."""

    def __init__(self, client: Handed, timeout: float) -> None:
        _redis.warn(client, timeout)
        self.client = client

    def forget(self) -> None:
        pass  # redis-py drops connections of a parent by itself

    def send(self, commands: list[Args], deadline: int) -> list[Any]:
        try:
            if len(commands) == 1:
                return [self.client.execute_command(*commands[0])]
            pipe = self.client.pipeline(transaction=False)
            for args in commands:
                pipe.execute_command(*args)
            replies = pipe.execute(raise_on_error=False)
            return [_redis.failure(r, True) if isinstance(r, Exception) else r for r in replies]
        except (RedisError, OSError) as e:
            return [_redis.failure(e, True)] * len(commands)

    def close(self) -> None:
        pass  # it is the application's


class Sender(Protocol):
    def send(self, commands: list[Args], deadline: int) -> list[Any]: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...


class Threads:
    """The runtime of the client: one daemon thread, which is started when it is needed."""

    def __init__(self, run: Callable[[Steps[None]], None]) -> None:
        self.run = run
        self.forget()

    def forget(self) -> None:
        """Forgets what the parent of a forked child had to do."""
        self.changed = threading.Condition()
        self.timers: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.work: deque[Steps[None]] = deque()
        self.busy = False
        self.stopped = False
        self.thread: threading.Thread | None = None

    def now(self) -> int:
        return time.monotonic_ns()

    def random(self) -> float:
        return random.random()

    def later(self, delay: int, call: Callable[[], None]) -> None:
        with self.changed:
            self.number += 1
            heapq.heappush(self.timers, (time.monotonic_ns() + delay, self.number, call))
            self.wake()

    def background(self, steps: Steps[None]) -> None:
        with self.changed:
            self.work.append(steps)
            self.wake()

    def wake(self) -> None:
        if self.thread is None and not self.stopped:
            self.thread = threading.Thread(target=self.loop, name="headgate", daemon=True)
            try:
                self.thread.start()
            except RuntimeError:  # the process ends
                self.thread = None
        self.changed.notify_all()

    def loop(self) -> None:
        me = threading.current_thread()
        while True:
            with self.changed:
                self.busy = False
                while not self.work:
                    now = time.monotonic_ns()
                    if self.stopped or self.thread is not me:
                        self.changed.notify_all()
                        return
                    if self.timers and self.timers[0][0] <= now:
                        break
                    if not self.timers:
                        self.changed.notify_all()
                    self.changed.wait((self.timers[0][0] - now) / SECOND if self.timers else None)
                self.busy = True
                steps = self.work.popleft() if self.work else None
                call = heapq.heappop(self.timers)[2] if steps is None else None
            try:
                if steps is not None:
                    self.run(steps)
                elif call is not None:
                    call()
            except Exception:
                _redis.log.exception("a step in the background failed")

    def stop(self, wait: float) -> None:
        """Ends the thread, after what it has to do, but no later than wait seconds from now."""
        until = time.monotonic() + wait
        with self.changed:
            self.timers.clear()
            self.changed.notify_all()
            while self.thread is not None and (self.work or self.busy):
                left = until - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(min(left, 0.005))
            self.work.clear()
            self.stopped = True
            self.changed.notify_all()


class Client:
    """Asks a Headgate server, or decides without it. It is safe for threads, and one process
    needs one client.

    ``server`` is an address such as ``"127.0.0.1:7379"`` or ``"redis://:password@host:7379"``,
    several of them for the nodes of a cluster, or a ``redis.Redis`` of the application.
    ``processes`` says how many processes use the limits, if that is known.
    """

    def __init__(
        self, server: str | Sequence[str] | Handed = "127.0.0.1:7379", *, timeout: float = 0.05, processes: int = 0,
        leases: bool = True, lease_ttl: float = 2.0,
    ) -> None:  # fmt: skip
        self._threads = Threads(self._run)
        self._core = Core(self._threads, timeout=timeout, processes=processes, leases=leases, lease_ttl=lease_ttl)
        self._sender: Sender
        if isinstance(server, redis.Redis) or hasattr(server, "execute_command"):
            self._sender = HandedOver(server, timeout)  # type: ignore[arg-type]
        else:
            self._sender = Connections(_redis.urls(server))
        after_fork(self)

    def _forked(self) -> None:
        self._threads.forget()
        self._sender.forget()
        self._core.forked()

    def _run(self, steps: Steps[T]) -> T:
        """Carries out the steps of a verb."""
        result: Any = None
        try:
            while True:
                op = steps.send(result)
                try:
                    result = self._do(op)
                except BaseException as e:
                    steps.throw(e)
                    raise
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _do(self, op: Send | SendAll | Sleep | Join | Start) -> Any:
        if isinstance(op, Send):
            return self._sender.send([op.args], op.deadline)[0]
        if isinstance(op, SendAll):
            return self._sender.send(op.commands, op.deadline)
        if isinstance(op, Start):
            return self._run(op.steps)
        if isinstance(op, Sleep):
            return time.sleep(op.time / SECOND)
        done = threading.Lock()
        done.acquire()
        if self._core.attach(op.waiter, done.release):
            done.acquire(timeout=max((op.deadline - time.monotonic_ns()) / SECOND, 0))
        return None

    def try_allow(self, key: str, limit: Limit, cost: int = 1) -> Decision | None:
        """Decides at once, without the server: from a lease, by a remembered denial, or by the
        failure policy while the server is away. None means that the server must be asked."""
        return self._core.try_allow(key, limit, cost)

    def allow(self, key: str, limit: Limit, cost: int = 1) -> Decision:
        """Asks for cost units of a key's limit."""
        d = self._core.try_allow(key, limit, cost)
        return self._run(self._core.ask(key, limit, cost)) if d is None else d

    def peek(self, key: str, limit: Limit, cost: int = 1) -> Decision:
        """Says what allow would answer, and takes nothing."""
        return self._run(self._core.peek(key, limit, cost))

    def wait(self, key: str, limit: Limit, cost: int = 1, at_most: float | None = None) -> Decision:
        """Asks until the call is allowed. A wait beyond at_most seconds is a denial at once."""
        return self._run(self._core.wait(key, limit, cost, at_most))

    def refund(self, key: str, limit: Limit, cost: int = 1) -> Decision:
        """Gives units back. It does nothing while the server is away."""
        return self._run(self._core.refund(key, limit, cost))

    def all(self, limits: Iterable[KeyLimit]) -> Decision:
        """Asks for several limits in one step: all of them are charged, or none."""
        return self._run(self._core.all(limits))

    def check(
        self, policy: Policy | str, attributes: Attributes | None = None, cost: int = 1, id: str | None = None
    ) -> Decision:
        """Asks a policy of the server."""
        return self._run(self._core.check(policy, attributes, cost, id))

    def reserve(
        self, policy: Policy | str, attributes: Attributes | None = None, cost: int = 1, ttl: float | None = None
    ) -> Reservation:
        """Asks a policy, and holds what it charges until the real cost is known."""
        return Reservation(self, self._run(self._core.reserve(policy, attributes, cost, ttl)))

    def acquire(self, key: str, slots: int, ttl: float, cost: int = 1, on_failure: OnFailure = "local") -> Slot:
        """Takes cost of a key's slots, for ttl seconds at most."""
        return Slot(self, key, *self._run(self._core.acquire(key, slots, ttl, cost, on_failure)))

    def reset(self, key: str) -> None:
        """Makes a key's limits full again. It raises UnavailableError if the server is away."""
        self._run(self._core.reset(key))

    @property
    def state(self) -> str:
        """The breaker's state: closed, or open while the server is away."""
        return "open" if self._core.open else "closed"

    def stats(self) -> Stats:
        return self._core.stats()

    def close(self) -> None:
        """Gives leased units back. Later calls raise ClosedError."""
        if self._core.close():
            self._threads.stop(self._core.timeout / SECOND * 2)
            self._sender.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reservation:
    """A call whose real cost is not known yet."""

    def __init__(self, client: Client, decision: Decision) -> None:
        self._client = client
        self.decision = decision

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def commit(self, cost: int = 1) -> Decision:
        """Settles the real cost. It does nothing if the server did not decide the call."""
        return self._client._run(self._client._core.settle(self.decision.hold, cost))

    def cancel(self) -> Decision:
        """Settles a call that cost nothing."""
        return self._client._run(self._client._core.settle(self.decision.hold, None))


class Slot:
    """Slots of a key. As a context manager it releases them at the end."""

    def __init__(self, client: Client, key: str, decision: Decision, id: str | None) -> None:
        self._client, self._key = client, key
        self._released = False
        self.decision, self.id = decision, id

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._client._run(self._client._core.release(self._key, self.id))

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


