"""An ingress core with a small window, and what tests do with it."""

from braid.config import Ingress
from braid.messages import Confirmed, Send
from braid.topology import Configuration
from services.connpoint.ingress import IngressCore

ORIGIN = "connpoint-1.a"
SETTINGS = Ingress(
    window_publications_max=10, window_bytes_max=1 << 20, retry_s=2.0, retry_s_max=8.0, retry_batch_max=4
)
CONFIGURATION = Configuration(1, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))
EVEN, ODD = 10, 11  # publishers; their numbers choose the access point


def configured() -> IngressCore:
    core = IngressCore(ORIGIN, SETTINGS)
    core.on_configuration(CONFIGURATION)
    return core


def publish(core: IngressCore, publisher: int, *contents: bytes, now_s: float = 100.0) -> list[Send]:
    return core.on_logged(core.accept(publisher, list(contents) or [b"x"], now_s), now_s, 0)


def confirm(core: IngressCore, *sequences: int, origin: str = ORIGIN) -> list[int]:
    return [batch.sequence for batch in core.on_confirmed(Confirmed(1, origin, list(sequences)))]


def sent(sends: list[Send]) -> list[tuple[str, int, int, int]]:
    """Access point, sequence, previous, watermark of each message."""
    return [(send.to, m.sequence, m.previous, m.watermark) for send in sends for m in send.messages]
