from __future__ import annotations

from collections.abc import Iterator

import pytest
from server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    s = Server()
    yield s
    s.stop()
