"""The examples of three pages of docs/howto, with their policies."""

import pathlib
import re

import pytest
import redis

HOWTO = pathlib.Path(__file__).parents[4] / "docs" / "howto"
PAGE = "".join((HOWTO / f"{name}.md").read_text() for name in ("tiers", "tenants", "webhooks"))


@pytest.fixture(scope="module")
def r(plain):
    files = re.findall(r"^```yaml\n(# (?:api|saas|hooks)\.yaml\n.*?)^```", PAGE, re.M | re.S)
    assert len(files) == 3
    client = redis.Redis(host=plain.host, port=plain.port, protocol=2)
    for file in files:
        client.execute_command("RL.POLICY", "LOAD", file)
    yield client
    client.close()


@pytest.fixture(scope="module")
def examples():
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
        exec(code, names)
    return names


def test_a_public_api_with_tiers(r, examples, new_key):
    allow_api, key = examples["allow_api"], new_key()
    for _ in range(10):
        assert allow_api(r, key, "free", "198.51.100.7", "") == (True, 0)
    allowed, retry_after_ms = allow_api(r, key, "free", "198.51.100.7", "")
    assert not allowed
    assert 20_000 < retry_after_ms <= 36_000
    assert allow_api(r, key, "pro", "", "") == (True, 0)
    assert allow_api(r, "revoked-python", "revoked", "", "") == (False, -1)


def test_a_status_for_a_call_of_a_tenant(r, examples, new_key):
    tenant = new_key()
    statuses = [examples["status_saas"](r, tenant, "eve", "GET", "/v1/items", cost) for cost in (500, 500, 501)]
    assert statuses == [200, 429, 403]


def test_a_webhook_is_sent_later_or_goes_back_to_the_queue(r, examples, new_key):
    host = new_key()
    for i in range(4):
        send, in_ms = examples["send_at"](r, host, host)
        assert send
        assert i * 10_000 - 9_000 < in_ms <= i * 10_000
    send, in_ms = examples["send_at"](r, host, host)
    assert not send
    assert 1_000 < in_ms <= 10_000
