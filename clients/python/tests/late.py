"""How late this machine runs what is due: a test of times allows for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType


def waited() -> float:
    """Returns for how many seconds threads of this process were ready to run and not run, as far as
    the system tells. Other programs had the processors."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except OSError:  # the thread has ended
            pass
    return total / 1e9


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
