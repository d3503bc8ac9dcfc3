"""Runs the README's examples word for word. test-sdks.sh runs this with the package installed;
elsewhere the sources are tested."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from server import Server, free_port

ROOT = Path(__file__).parents[1]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
APPLICATIONS = {
    "FastAPI": "app.add_middleware(RateLimit",
    "Starlette": "Starlette(",
    "Flask": "headgate_client.flask",
    "Django": "headgate_client.django",
    "Flask-Limiter": "flask_limiter",
    "slowapi": "slowapi",
}


def example(has: str) -> str:
    found = [e for e in EXAMPLES if has in e]
    assert len(found) == 1, has
    return found[0]


def run(example: str, where: Path, server: Server, *args: str) -> subprocess.Popen[str]:
    (where / "example.py").write_text(example)
    env = {**os.environ, "HEADGATE": server.addr}
    if not os.environ.get("HEADGATE_INSTALLED"):
        env["PYTHONPATH"] = str(ROOT / "src")
    return subprocess.Popen([sys.executable, *args], cwd=where, env=env, stdout=subprocess.PIPE, text=True)


def test_the_first_example(tmp_path: Path, server: Server) -> None:
    for _ in range(4):  # a machine that stands still for 50 ms takes the server for away
        process = run(EXAMPLES[0], tmp_path, server, "example.py")
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        if "True - some" in out:
            break
    assert out.splitlines()[-1] == "at least 100 allowed: True - some without the server: True"


@pytest.mark.slow
@pytest.mark.parametrize("state", ["killed", "stopped"])
def test_the_first_example_in_an_outage(state: str, tmp_path: Path, server: Server) -> None:
    """It ends, and soon."""
    server.kill() if state == "killed" else server.signal(19)
    process = run(EXAMPLES[0], tmp_path, server, "example.py")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "denied, try again after" in out


@pytest.mark.slow
def test_requests_to_others(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        monkeypatch.setenv("API", "http://127.0.0.1:%d/" % s.server_port)
        process = run(example("headgate_client.httpx"), tmp_path, server, "example.py")
        out, _ = process.communicate(timeout=60)
        s.shutdown()
    assert (process.returncode, out) == (0, "200\n200\n")


def test_each_example_has_a_test() -> None:
    assert len(EXAMPLES) == 1 + len(APPLICATIONS) + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications(name: str, tmp_path: Path, server: Server) -> None:
    """Each application answers, with the header fields, and also after the server was killed."""
    port = str(free_port())
    if "Flask" in name:
        args = ["-m", "flask", "--app", "example", "run", "--port", port]
    else:
        args = ["-m", "uvicorn", "example:app", "--port", port, "--log-level", "warning"]
    process = run(example(APPLICATIONS[name]), tmp_path, server, *args)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
        until = time.monotonic() + 60
        while True:
            try:
                connection.request("GET", "/")
                break
            except OSError:
                connection.close()
                assert time.monotonic() < until and process.poll() is None
                time.sleep(0.05)
        answer = connection.getresponse()
        assert answer.status == 200 and b"hello" in answer.read()
        asked = 1
        while int(answer.getheader("X-RateLimit-Remaining") or "") != int(answer.getheader("X-RateLimit-Limit") or "") - asked:
            assert asked < 4  # on a busy machine the server may take longer than 50 ms for the first one
            connection.close()
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            asked += 1
        server.kill()
        for _ in range(8):
            connection.close()
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            assert answer.status in (200, 429)
    finally:
        process.kill()
        process.wait()
