"""Real servers of the tests, on free ports of the loopback interface."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@functools.cache
def binary() -> str:
    """The server of this tree, or the one that the suite has built."""
    given = os.environ.get("HGTEST_BIN")
    if given:
        return given
    built = ROOT / "clients/python/.bin/headgate"
    subprocess.run(["go", "build", "-o", str(built), "./cmd/headgate"], cwd=ROOT, check=True)
    return str(built)


class Server:
    """A server that can be stopped, killed and started again at the same port."""

    def __init__(self, *args: str) -> None:
        self.args = args
        self.port = free_port()
        self.addr = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
        self.process = subprocess.Popen(
            [binary(), "serve", "--listen", self.addr, "--http-listen", "", "--grpc-listen", "", *self.args],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                    s.sendall(b"PING\r\n")
                    if s.recv(16):
                        return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("the server does not listen")

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.kill()
