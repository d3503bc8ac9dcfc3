"""The servers of a run, as clients/compat/run.sh describes them in the environment."""

import itertools
import os

import pytest

from servers import Endpoint, Server


def need(name):
    value = os.environ.get(name)
    if not value:
        pytest.exit(f"{name} is not set: start the tests with clients/compat/run.sh python", 2)
    return value


def endpoint(name):
    """The server of that name: plain, auth or tls."""
    match name:
        case "plain":
            return Endpoint.parse(need("HGTEST_ADDR"))
        case "auth":
            return Endpoint.parse(need("HGTEST_AUTH_ADDR"), password=need("HGTEST_PASSWORD"))
        case "tls":
            return Endpoint.parse(need("HGTEST_TLS_ADDR"), ca=need("HGTEST_TLS_CA"))


@pytest.fixture(scope="session")
def plain():
    return endpoint("plain")


@pytest.fixture(scope="session")
def auth():
    return endpoint("auth")


@pytest.fixture(scope="session")
def tls():
    return endpoint("tls")


@pytest.fixture
def server():
    """A server of the test's own, to be killed."""
    own = Server(need("HGTEST_BIN"))
    own.start()
    yield own
    own.kill()


keys = itertools.count(1)


@pytest.fixture
def new_key():
    """Makes keys that no other test uses."""
    return lambda: f"clients-python:{os.getpid()}:{next(keys)}"
