"""What the core asks of its surroundings. The core does no I/O: its verbs are generators of
these operations, which the clients carry out by threads or by asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from ._block import Waiter

Args = tuple["str | bytes", ...]


class Failure:
    """A command without a usable reply. maybe reports whether the server may have charged it."""

    __slots__ = ("maybe", "text")

    def __init__(self, text: str, maybe: bool) -> None:
        self.text, self.maybe = text, maybe


class ErrorReply:
    """An error that the server answered, with its code."""

    __slots__ = ("code", "text")

    def __init__(self, text: str) -> None:
        self.text, self.code = text, text.partition(" ")[0]


class Send:
    """Send a command. The result is its reply, an ErrorReply or a Failure."""

    __slots__ = ("args", "deadline")

    def __init__(self, args: Args, deadline: int) -> None:
        self.args, self.deadline = args, deadline


class SendAll:
    """Send commands one after another, without waiting. The result is a list of results."""

    __slots__ = ("commands", "deadline")

    def __init__(self, commands: list[Args], deadline: int) -> None:
        self.commands, self.deadline = commands, deadline


class Sleep:
    __slots__ = ("time",)

    def __init__(self, time: int) -> None:
        self.time = time


class Join:
    """Wait until a waiter has its outcome, or the deadline."""

    __slots__ = ("deadline", "waiter")

    def __init__(self, waiter: Waiter, deadline: int) -> None:
        self.waiter, self.deadline = waiter, deadline


class Start:
    """Run operations which go on if the caller is cancelled. Nothing waits for them."""

    __slots__ = ("steps",)

    def __init__(self, steps: Steps[None]) -> None:
        self.steps = steps


T = TypeVar("T")
Steps = Generator["Send | SendAll | Sleep | Join | Start", Any, T]


class Runtime(Protocol):
    """Clock, timers and chance. Tests replace them."""

    def now(self) -> int:
        """Returns the time in nanoseconds, by a monotonic clock."""

    def random(self) -> float:
        """Returns a number from 0 to 1."""

    def later(self, delay: int, call: Callable[[], None]) -> None:
        """Calls call after delay nanoseconds."""

    def background(self, steps: Steps[None]) -> None:
        """Runs steps beside what is going on."""
