"""A process of test_cluster.py, which asks for one key at random times, ten times as often after the
server has stopped. Its input says
how. It prints when calls were admitted."""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from headgate_client import Client, Limit  # noqa: E402


def main() -> None:
    logging.disable()
    print("ready", flush=True)
    spec = json.loads(sys.stdin.readline())
    limit = Limit.per_second(spec["units"])
    client = Client(spec["addr"], leases=spec.get("leases", True), processes=spec.get("processes", 0))
    admitted, worst = [], 0.0
    before, away = [], []  # what calls took in the second before the server stopped, and since then
    at = spec["began"]
    while (now := time.monotonic()) < spec["ended"]:
        time.sleep(max(at - now, 0))
        began = time.monotonic()
        allowed = client.allow("cascade", limit).allowed
        ended = time.monotonic()
        if allowed:
            admitted.append(ended)
        if began >= spec["stopped"]:
            away.append(ended - began)
            worst = max(worst, ended - began)
        elif began >= spec["stopped"] - 1:
            before.append(ended - began)
        # What a machine that is busy has missed is not made up for.
        at = max(at, ended - 0.1) + random.expovariate(spec["rate"] * (10 if ended >= spec["stopped"] else 1))
    share = client._core.part("cascade", time.monotonic_ns())
    told = {"admitted": admitted, "before": before, "away": away, "worst": worst, "share": share}
    print(json.dumps({**told, "stats": asdict(client.stats())}))


main()
