"""A forked child drops the connections and blocks of its parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    def _forked(self) -> None: ...


_clients: weakref.WeakSet[Forked] = weakref.WeakSet()


def _in_child() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def after_fork(client: Forked) -> None:
    _clients.add(client)
