"""The example of docs/getting-started.md, in a real Flask."""

import logging
import pathlib
import re
import signal
import time

import flask
import redis

README = pathlib.Path(__file__).parents[4] / "docs" / "getting-started.md"


def example():
    return re.search(r"^Python, with .*?^```python\n(.*?)^```", README.read_text(), re.M | re.S)[1]


def app(plain, key, limit):
    """The application of the example, on the suite's server and under a limit
    of its own. What is replaced must be there."""
    code = example()
    for old, new in {"port=7379": f'host="{plain.host}", port={plain.port}', '"user:42", 100': f'"{key}", {limit}'}.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    app = flask.Flask(__name__)
    exec(code, {"app": app, "redis": redis, "logging": logging})
    app.add_url_rule("/", view_func=lambda: "ok")
    return app.test_client()


def test_denied_with_retry_after(plain, new_key):
    client = app(plain, new_key(), 2)
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
    denied = client.get("/")
    assert 25 <= int(denied.headers["Retry-After"]) <= 30


def test_no_retry_after_when_no_wait_helps(plain, new_key):
    denied = app(plain, new_key(), 0).get("/")
    assert denied.status_code == 429
    assert "Retry-After" not in denied.headers


def test_the_server_away(server, new_key):
    client = app(server.endpoint, new_key(), 1)

    def timed():
        begun = time.monotonic()
        status = client.get("/").status_code
        assert time.monotonic() - begun < 1
        return status

    assert [timed(), timed()] == [200, 429]
    server.process.send_signal(signal.SIGSTOP)  # it accepts connections and answers nothing
    assert timed() == 200
    server.process.send_signal(signal.SIGCONT)
    server.kill()
    assert [timed() for _ in range(5)] == [200] * 5
    server.start()
    statuses = [timed() for _ in range(3)]
    assert statuses[-1] == 429, "it limits again"
