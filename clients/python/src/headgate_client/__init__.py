"""Rate limits by a Headgate server, which answer within 50 ms whatever the server does."""

from ._async import AsyncClient, AsyncReservation, AsyncSlot
from ._core import KeyLimit, Stats
from ._sync import Client, Reservation, Slot
from ._values import (
    ClosedError,
    ConfigurationError,
    Decision,
    HeadgateError,
    Limit,
    LimitState,
    Policy,
    ServerError,
    UnavailableError,
)

__all__ = [
    "AsyncClient",
    "AsyncReservation",
    "AsyncSlot",
    "Client",
    "ClosedError",
    "ConfigurationError",
    "Decision",
    "HeadgateError",
    "KeyLimit",
    "Limit",
    "LimitState",
    "Policy",
    "Reservation",
    "ServerError",
    "Slot",
    "Stats",
    "UnavailableError",
]
