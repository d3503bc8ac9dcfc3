"""How late this machine runs what is due: a test of times allows for it."""

from __future__ import annotations

import threading
import time
from types import TracebackType


class Late:
    """Measures, while it is entered, by how much a sleep of 2 ms is late at most."""

    def __enter__(self) -> Late:
        self.most = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def run(self) -> None:
        while not self.ended.is_set():
            began = time.monotonic()
            time.sleep(0.002)
            self.most = max(self.most, time.monotonic() - began - 0.002)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.thread.join()
