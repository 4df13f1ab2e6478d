"""What telemetry tells of a connection point: how long publications took until they were confirmed, and delivered."""

import time
from collections.abc import Callable

from braid.messages import Notifications
from braid.telemetry.measures import Measures
from services.connpoint.delivery import DeliveryCore
from services.connpoint.log import Log
from services.connpoint.publishing import Publishing
from services.connpoint.retrying import Batch


class Measuring:
    def __init__(
        self,
        measures: Measures,
        log: Log,
        publishing: Publishing,
        delivery: DeliveryCore,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._measures = measures
        self._clock_s = clock_s
        self._log = log
        publishing.on_done = self._on_done
        delivery.on_delivered = self._on_delivered

    def _on_done(self, batches: list[Batch]) -> None:
        now_s = self._clock_s()
        for batch in batches:
            self._measures.lasted("confirmed", now_s - batch.accepted_s, len(batch.contents))

    def _on_delivered(self, notification: Notifications) -> None:
        """Known of what is sent from here: clocks of different connection points are not compared, unless the ingress
        log is in Kafka, where one may send what another has accepted.
        """
        accepted_s = self._log.accepted_s(notification.origin, notification.sequence)
        if accepted_s is not None:
            self._measures.lasted("delivered", self._clock_s() - accepted_s, len(notification.matches))
