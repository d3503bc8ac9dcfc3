"""Servers that misbehave."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

HELLO = b"%2\r\n$6\r\nserver\r\n$8\r\nheadgate\r\n$5\r\nproto\r\n:3\r\n"


class Fake:
    """Answers each command by a function of it. None is no answer."""

    def __init__(self, answer: Callable[[list[bytes]], bytes | None], greet: bool = True) -> None:
        self.answer, self.greet = answer, greet
        self.commands: list[list[bytes]] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.addr = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rb")
        try:
            while line := stream.readline():
                command = []
                for _ in range(int(line[1:])):
                    size = int(stream.readline()[1:])
                    command.append(stream.read(size + 2)[:-2])
                if self.greet and command[0] == b"HELLO":
                    connection.sendall(HELLO)
                elif self.greet and command[0] == b"CLIENT":
                    connection.sendall(b"+OK\r\n")
                else:
                    self.commands.append(command)
                    answer = self.answer(command)
                    if answer is not None:
                        connection.sendall(answer)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def close(self) -> None:
        self.socket.close()


def slow(seconds: float, answer: bytes) -> Callable[[list[bytes]], bytes | None]:
    def reply(command: list[bytes]) -> bytes:
        time.sleep(seconds)
        return answer

    return reply


class Deaf:
    """A port whose connections are never made: its backlog is full."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0)
        self.addr = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.others = []
        for _ in range(3):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(self.socket.getsockname())
            self.others.append(s)
        time.sleep(0.05)

    def close(self) -> None:
        for s in (self.socket, *self.others):
            s.close()


class Link:
    """What is between a client and a server. While it is cut, nothing comes through, and nobody is
    told."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.through = threading.Event()
        self.through.set()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.addr = "127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                client.close()
                continue
            for pair in ((client, server), (server, client)):
                for s in pair:
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.relay, args=pair, daemon=True).start()

    def relay(self, of: socket.socket, to: socket.socket) -> None:
        try:
            while data := of.recv(65536):
                self.through.wait()
                to.sendall(data)
        except OSError:
            pass
        for s in (of, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def cut(self) -> None:
        self.through.clear()

    def heal(self) -> None:
        self.through.set()

    def close(self) -> None:
        self.heal()
        self.socket.close()
