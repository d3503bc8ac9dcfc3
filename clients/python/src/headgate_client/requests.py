"""An adapter for requests that spaces requests by what servers say of their limits.

    session = requests.Session()
    session.mount("https://", Adapter())
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from ._pace import Pace


class Adapter(HTTPAdapter):
    """Sends after a wait of max_wait seconds at most. Other arguments are HTTPAdapter's."""

    def __init__(self, *args: Any, max_wait: float = 60.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pace = Pace(max_wait)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        host = urlsplit(request.url or "").netloc
        if isinstance(host, bytes):
            host = host.decode()
        wait = self.pace.before(host)
        if wait > 0:
            time.sleep(wait)
        response = super().send(request, *args, **kwargs)
        self.pace.after(host, response.status_code, response.headers)
        return response
