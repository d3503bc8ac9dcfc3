"""Real servers of the tests, on free ports of the loopback interface."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import redis

ROOT = Path(__file__).parents[3]


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


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

    def __init__(self, *args: str, port: int = 0) -> None:
        self.args = args
        self.port = port or free_port()
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


class Cluster:
    """Three servers that are one cluster. Without a leader they deny: a client must not ask them."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(6)
        peers = [f"127.0.0.1:{p}" for p in ports[3:]]
        self.nodes = [
            Server(
                "--node-id", f"n{i}", "--data-dir", str(folder / f"n{i}"), "--peer-listen", peers[i], "--bootstrap-expect", "3",
                "--join", ",".join(peers), "--on-failure", "closed", port=ports[i],
            )
            for i in range(3)
        ]  # fmt: skip
        self.leader()

    @property
    def addrs(self) -> list[str]:
        return [n.addr for n in self.nodes]

    def leader(self) -> Server:
        """Waits until all nodes that run follow one leader."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            running = [n for n in self.nodes if n.process is not None]
            roles = {n: role(n) for n in running}
            leaders = [n for n, r in roles.items() if r == "leading"]
            if len(leaders) == 1 and all(r in ("leading", "following") for r in roles.values()):
                return leaders[0]
            time.sleep(0.02)
        raise RuntimeError("the cluster has no leader")

    def stop(self) -> None:
        for n in self.nodes:
            n.stop()


def role(node: Server) -> str:
    try:
        with redis.Redis(port=node.port, retry=None, socket_timeout=1) as r:
            return str(r.info("replication").get("headgate_role"))
    except redis.RedisError:
        return "away"
