"""Questions for kept publications: each is searched for once it has come through every access point.

Whatever an access point had sent to this matcher before the question is kept then, so nothing that was matched before a
subscription was there can be missing in its past. Bounded: questions that have not come through all of them are
forgotten, the oldest first; their connection points ask again.
"""

from braid.messages import FindPublications

QUESTIONS_MAX = 10_000

_Key = tuple[str, int, int]  # connection point, number of its question, epoch


class Past:
    def __init__(self) -> None:
        self._heard: dict[_Key, set[str]] = {}  # the access points that have brought it
        self._searching: set[tuple[str, int]] = set()

    def on_question(self, accesspoint: str, question: FindPublications) -> bool:
        """Whether it is to be searched for now."""
        if (question.connpoint, question.ref) in self._searching:
            return False  # asked again meanwhile
        key = (question.connpoint, question.ref, question.epoch)
        heard = self._heard.setdefault(key, set())
        heard.add(accesspoint)
        if not heard.issuperset(question.accesspoints):
            while len(self._heard) > QUESTIONS_MAX:
                del self._heard[next(iter(self._heard))]
            return False
        del self._heard[key]
        self._searching.add((question.connpoint, question.ref))
        return True

    def on_over(self, question: FindPublications) -> None:
        """It was searched for, or there was no room for that."""
        self._searching.discard((question.connpoint, question.ref))
