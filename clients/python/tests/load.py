"""Load on an application at a real port, and what is asserted of it in an outage."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from server import free_port

HERE = Path(__file__).parent


class App:
    """An application in a process of its own."""

    def __init__(self, name: str, **env: str) -> None:
        self.port = free_port()
        self.notes = tempfile.NamedTemporaryFile(prefix="headgate-late-")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "apps.py"), name, str(self.port)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "LATE": self.notes.name, **env},
        )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the application {name} does not listen")

    def get(self, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/", headers=headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def late(self, start: float, end: float) -> float:
        """Returns by how much the machine ran the application late, at most."""
        each = [line.split() for line in Path(self.notes.name).read_text().splitlines()]
        return max((float(by) for at, by in each if float(at) >= start and float(at) - float(by) < end), default=0.0)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Load:
    """Requests of several threads, with what each answered: time, seconds, status."""

    app: App
    threads: int = 4
    pause: float = 0.002
    answers: list[tuple[float, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ended = threading.Event()
        self.running = [threading.Thread(target=self.run, daemon=True) for _ in range(self.threads)]
        for t in self.running:
            t.start()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.app.port, timeout=5)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not self.ended.is_set():
            began = time.monotonic()
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                status = 599
                connection.close()
            self.answers.append((began, time.monotonic() - began, status))
            time.sleep(self.pause)

    def stop(self) -> None:
        self.ended.set()
        for t in self.running:
            t.join()

    def since(self, start: float, end: float = 1e18) -> list[tuple[float, float, int]]:
        return [a for a in self.answers if start <= a[0] < end]
