"""Stands in for the containers that tests of limits and Flask-Limiter start.

Their fixture docker_services starts servers by name; the only one there is
runs already, on the port that the tests expect of it. Tests that ask for
another are skipped.
"""

import pytest


def pytest_addoption(parser):
    # Their settings keep the containers alive by it.
    parser.addoption("-K", action="store_true", dest="keepalive")


class Services:
    def start(self, *names):
        for name in names:
            if name not in ("redis-basic", "redis"):
                pytest.skip(f"no service {name} here")

    def wait_for_service(self, name, *_, **__):
        self.start(name)


@pytest.fixture(scope="session")
def docker_services():
    return Services()
