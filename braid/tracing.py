"""A traced publication leaves a line in the log of every slice it passes, so that its id can be followed."""

from typing import Any

import msgspec
import structlog

from braid.messages import MatchRequest, Notifications, Partial, Publications

log = structlog.get_logger()

LOGGED_IDS_MAX = 20  # of one batch
TRACED_KINDS = frozenset((Publications, MatchRequest, Partial, Notifications))


class _Identified(msgspec.Struct):
    id: str


_decode = msgspec.json.Decoder(_Identified).decode


def log_traced(run: list[Any]) -> None:
    """Called for every run of messages of the path; costs one look per batch where nothing is traced."""
    for message in run:
        if message.hops is not None:
            log.info(
                "traced",
                message=type(message).__name__,
                origin=message.origin,
                sequence=message.sequence,
                message_epoch=message.epoch,
                publications=[_decode(content).id for content in _contents(message)[:LOGGED_IDS_MAX]],
            )


def _contents(message: Publications | MatchRequest | Partial | Notifications) -> list[bytes]:
    match message:
        case Publications() | MatchRequest():
            return message.contents
        case Notifications():
            return [content for _, _, content in message.matches]
        case Partial():
            return [content for _, matches in message.matched for _, _, content in matches]
