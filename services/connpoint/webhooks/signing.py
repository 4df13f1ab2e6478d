"""Standard Webhooks: who sent a request, and that nobody changed it."""

import base64
import hashlib
import hmac

from braid.deliver import Webhook, secret_bytes
from braid.version import VERSION

_USER_AGENT = f"braid/{VERSION}"


def headers_of(webhook: Webhook, id: str, body: bytes, now_s: float) -> dict[str, str]:
    """Of one attempt. While a secret is being replaced, both sign."""
    timestamp = str(int(now_s))
    secrets = [webhook.secret]
    if webhook.secret_before and now_s < webhook.secret_before_until_s:
        secrets.append(webhook.secret_before)
    return {
        "content-type": "application/json",
        "user-agent": _USER_AGENT,
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, id, timestamp, body) for secret in secrets),
    }


def _signature(secret: str, id: str, timestamp: str, body: bytes) -> str:
    signed = b"%b.%b.%b" % (id.encode(), timestamp.encode(), body)
    digest = hmac.new(secret_bytes(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
