"""Servers that tests reach, and servers that they start themselves."""

import dataclasses
import json
import subprocess
import threading


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where and how to reach a server."""

    host: str
    port: int
    password: str | None = None
    ca: str | None = None  # PEM file of the authority, if the server speaks TLS

    @classmethod
    def parse(cls, address, **how):
        host, port = address.split(":")
        return cls(host, int(port), **how)

    def options(self):
        """The arguments that redis-py connects with."""
        options = {"host": self.host, "port": self.port, "password": self.password}
        if self.ca:
            options |= {"ssl": True, "ssl_ca_certs": self.ca}
        return options


class Server:
    """A headgate process on a port that the system chose."""

    def __init__(self, binary):
        self.binary = binary
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.process = None

    def start(self):
        """Starts the server, or starts it again on the same port."""
        self.process = subprocess.Popen(
            [
                self.binary, "serve", "--listen", f"{self.endpoint.host}:{self.endpoint.port}",
                "--http-listen", "127.0.0.1:0", "--log-format", "json",
            ],
            stderr=subprocess.PIPE,
        )
        for line in self.process.stderr:
            entry = json.loads(line)
            if entry["msg"] == "ready":
                self.endpoint = Endpoint.parse(entry["listen"])
                # A full pipe would block the server.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError("headgate ended before it was ready")

    def kill(self):
        """Ends the process as a crash does."""
        self.process.kill()
        self.process.wait()
