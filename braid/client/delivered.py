"""Which publications the streams have had, so that none is given twice."""

from collections import OrderedDict


class Delivered:
    """A bounded window of publication ids, and which streams each was given to.

    A publication sent again by its publisher, or notified again after a resume, has the same id. The window forgets
    the oldest id when it is full: what comes again later than that is given again.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._streams: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._streams)

    def first_time(self, publication_id: str, streams: list[int]) -> list[int]:
        """Those of the streams that have not had this publication; they are taken to have it from now on."""
        if not self._window or not publication_id or not streams:
            return streams
        had = self._streams.get(publication_id)
        if had is None:
            if len(self._streams) >= self._window:
                self._streams.popitem(last=False)
            self._streams[publication_id] = tuple(streams)
            return streams
        fresh = [stream for stream in streams if stream not in had]
        if fresh:
            self._streams[publication_id] = (*had, *fresh)
        return fresh
