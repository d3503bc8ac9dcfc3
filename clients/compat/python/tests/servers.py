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
            if entry["msg"] == "listening":
                self.endpoint = Endpoint.parse(entry["listen"])
                # A full pipe would block the server.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError("headgate ended before it listened")

    def kill(self):
        """Ends the process as a crash does."""
        self.process.kill()
        self.process.wait()


class Cluster:
    """Three nodes that replicate, run by clients/compat/go/cluster, which kills their leader when told to."""

    def __init__(self, binary, *args):
        self.process = subprocess.Popen([binary, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.nodes = [Endpoint.parse(address) for address in self._answer("nodes")]

    def _answer(self, to):
        line = self.process.stdout.readline().split()
        if not line or line[0] != to:
            raise RuntimeError(f"the cluster answered {line}, not {to}")
        return line[1:]

    def _ask(self, command, answer):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer(answer)

    def kill_leader(self):
        """Kills the leader as a crash does."""
        return Endpoint.parse(self._ask("kill", "killed")[0])

    def leader(self):
        """The leader, when one serves and the others follow it."""
        return Endpoint.parse(self._ask("leader", "leader")[0])

    def restart(self):
        """Starts the node again that was killed."""
        self._ask("restart", "restarted")

    def balance(self):
        """Starts a load balancer for the nodes."""
        return Endpoint.parse(self._ask("balance", "balancer")[0])

    def degraded(self):
        """How many calls the nodes decided by their failure policy."""
        return int(self._ask("degraded", "degraded")[0])

    def stop(self):
        self.process.stdin.close()
        if self.process.wait(30):
            raise RuntimeError("a node crashed, or did not stop in order")
