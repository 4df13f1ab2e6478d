"""Signatures, addresses, answers: the parts of a webhook that stand alone."""

import base64
import json

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from braid.deliver import Webhook
from braid.problems import Problem
from services.connpoint.webhooks.addresses import ForbiddenAddressError, Resolver, check_url, is_public
from services.connpoint.webhooks.answers import retry_after_s
from services.connpoint.webhooks.signing import headers_of
from tests.core.webhook_cases import SECRET, WEBHOOK

NOW = 1_777_636_800.25
BODY = '{"op":"notify","subscriber":"ännå","notifications":[]}'.encode()


def test_a_known_signature() -> None:
    """The example of the specification's own reference library."""
    webhook = Webhook("https://example.com", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = headers_of(webhook, "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1614265330.0)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"


@pytest.fixture
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other implementation refuses old timestamps, by its own clock."""
    import datetime

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Clock":
            return cls.fromtimestamp(NOW, tz)

    monkeypatch.setattr("standardwebhooks.webhooks.datetime", Clock)


@pytest.mark.usefixtures("_now")
def test_another_implementation_verifies_it() -> None:
    headers = headers_of(WEBHOOK, "msg_1", BODY, NOW)
    assert Verifier(SECRET).verify(BODY, headers) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(BODY, {**headers, "webhook-id": "msg_2"})


@pytest.mark.usefixtures("_now")
def test_while_a_secret_is_replaced_both_verify() -> None:
    old = "whsec_" + base64.b64encode(bytes(32)).decode()
    rotating = Webhook("https://example.com", SECRET, old, NOW + 1)
    for secret in (SECRET, old):
        Verifier(secret).verify(BODY, headers_of(rotating, "msg_1", BODY, NOW))
    over = headers_of(rotating, "msg_1", BODY, NOW + 1)
    assert " " not in over["webhook-signature"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("Fri, 01 May 2026 12:01:00 GMT", 59.75),
        ("Fri, 01 May 2026 11:00:00 GMT", 0.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("²", 0.0),
        ("9" * 5000, 999_999_999.0),
        ("Fri, 99 May 2026 12:01:00 GMT", 0.0),
    ],
)
def test_what_the_receiver_asks_for(header: str, expected: float) -> None:
    assert retry_after_s(header, NOW) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("240.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fec0::1", False),
        ("feff::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d70e", True),
        ("2002:7f00:1::", False),
        ("2001:0:5ef5:79fd:0:59d:f5ff:fffe", False),
    ],
)
def test_which_addresses_are_public(address: str, expected: bool) -> None:
    assert is_public(address) is expected


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "a.localhost", "10.0.0.1:8080"])
def test_a_url_that_names_a_private_address_is_refused_at_once(host: str) -> None:
    with pytest.raises(Problem, match="allow_private"):
        check_url(f"http://{host}/hook", allow_private=False)
    check_url(f"http://{host}/hook", allow_private=True)
    check_url("https://example.com/hook", allow_private=False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1"])
async def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_looked_up(host: str) -> None:
    careful, trusting = Resolver(1, allow_private=False), Resolver(1, allow_private=True)
    try:
        for _ in range(2):  # the second time it is remembered
            with pytest.raises(ForbiddenAddressError, match="allow_private"):
                await careful.addresses_of(host, 80)
        assert "127.0.0.1" in await trusting.addresses_of(host, 80)
    finally:
        careful.close()
        trusting.close()
