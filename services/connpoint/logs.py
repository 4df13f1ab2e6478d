"""Which ingress log a connection point has: that of the settings, and what another one may have left."""

from pathlib import Path

from braid.config import Settings
from services.connpoint.ingress import IngressCore
from services.connpoint.ingress_log import IngressLog
from services.connpoint.ingress_topic import IngressTopic
from services.connpoint.kafka_log import KafkaLog
from services.connpoint.left_over import WithLeftOver
from services.connpoint.local_log import LocalLog
from services.connpoint.log import Log, Perform


def ingress_log(name: str, incarnation: int, settings: Settings, directory: Path, perform: Perform) -> Log:
    path = directory / "ingress"
    core = IngressCore(f"{name}.{incarnation:x}", settings.ingress)
    local = LocalLog(core, IngressLog(path, settings.ingress), perform)
    if settings.ingress.log == "leveldb":
        return local
    kafka = KafkaLog(name, settings, IngressTopic(name, settings), perform)
    return WithLeftOver(kafka, local) if path.exists() else kafka
