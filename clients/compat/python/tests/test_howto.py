"""The programs of docs/howto/from-redis-scripts.md, word by word, between a Redis and a Headgate."""

import pathlib
import re
import shutil
import socket
import subprocess
import time

import pytest
import redis

PAGE = (pathlib.Path(__file__).parents[4] / "docs" / "howto" / "from-redis-scripts.md").read_text()

# A token bucket as the page describes it: a hash with tokens and ts.
SCRIPT = """
local capacity, rate, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local b = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens = math.min(capacity, (tonumber(b[1]) or capacity) + math.max(0, now - (tonumber(b[2]) or now)) * rate)
local allowed = 0
if tokens >= cost then allowed, tokens = 1, tokens - cost end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'ts', now)
redis.call('EXPIRE', KEYS[1], math.ceil(2 * capacity / rate))
return {allowed, math.floor(tokens)}
"""


def block(kind, of):
    """The only block of that kind that has a text."""
    found = [b for b in re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S) if of in b]
    assert len(found) == 1, of
    return found[0]


def run(code, old, new):
    """Runs a program of the page with the ports of the test. Each is named once, apart from comments."""
    code = re.sub(r" +# .*", "", code)
    for port, is_at in ((6379, old), (7379, new)):
        assert code.count(f"port={port}") == 1
        code = code.replace(f"port={port}", f'host="127.0.0.1", port={is_at}')
    exec(code, {})


@pytest.fixture(params=["redis", "headgate"])
def old(request, server, tmp_path):
    """A client of the server that has the script's hashes: a Redis, or the copy in Headgate."""
    if request.param == "headgate":
        yield redis.Redis(port=server.endpoint.port, protocol=2, decode_responses=True)
        return
    assert shutil.which("redis-server"), "redis-server is not installed; make deps installs it"
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    args = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    own = subprocess.Popen(["redis-server", *args], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, decode_responses=True)
    try:
        until = time.monotonic() + 20
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert time.monotonic() < until and own.poll() is None
                time.sleep(0.02)
        yield client
    finally:
        client.close()
        own.kill()
        own.wait()


def port_of(client):
    return client.connection_pool.connection_kwargs["port"]


def test_one_command_does_the_work_of_the_script(old, server):
    by_script, by_command = block("python", "r.evalsha"), block("python", '"RL.LIMIT"')
    names = {"time": time, "capacity": 10, "rate": 2, "cost": 3}
    script = {**names, "r": old, "sha": old.script_load(SCRIPT)}
    command = {**names, "r": redis.Redis(port=server.endpoint.port, protocol=2)}
    if port_of(old) == server.endpoint.port:
        by_command = by_command.replace("user:42", "user:43")  # another key, as the page says
    for _ in range(4):
        exec(by_script, script)
        exec(by_command, command)
        assert (script["allowed"], script["tokens"]) == (command["allowed"], command["remaining"])
    assert command["allowed"] == 0
    assert 0 < command["retry_after_ms"] <= 1000
    command["r"].close()


def test_counts_go_to_a_policy_and_back(old, server):
    with redis.Redis(port=server.endpoint.port, protocol=2, decode_responses=True) as new:
        new.execute_command("RL.POLICY", "LOAD", block("yaml", "# api.yaml"))

        def left(user):
            return new.execute_command("RL.CHECK", "api", "user", user, "COST", 0)[2]

        sha = old.script_load(SCRIPT)
        used = {"42": 4, "a b;=%": 10, "nobody": 0}
        for user, cost in used.items():
            old.evalsha(sha, 1, "rl:user:" + user, 10, 0.01, time.time(), cost)
        # One that was used up 250 s ago, and one that has expired while the program ran.
        old.hset("rl:user:ago", mapping={"tokens": 0, "ts": time.time() - 250})
        old.hset("rl:user:gone", mapping={"other": 1})
        ports = port_of(old), server.endpoint.port
        run(block("python", '"FORCE"'), *ports)
        assert {user: left(user) for user in used} == {"42": 6, "a b;=%": 0, "nobody": 10}
        assert (left("ago"), left("gone")) == (2, 10)

        new.execute_command("RL.CHECK", "api", "user", "42", "COST", 2)
        new.execute_command("RL.CHECK", "api", "user", "late", "COST", 1)
        for key in old.scan_iter("rl:user:*"):
            old.delete(key)
        run(block("python", "unquote"), *ports)
        tokens = {user: old.hget("rl:user:" + user, "tokens") for user in ("42", "a b;=%", "ago", "late")}
        assert tokens == {"42": "4", "a b;=%": "0", "ago": "2", "late": "9"}
        assert 1990 < old.ttl("rl:user:42") <= 2000
        # The script goes on with them.
        allowed, tokens = old.evalsha(sha, 1, "rl:user:42", 10, 0.01, time.time(), 3)
        assert (allowed, tokens) == (1, 1)
