"""What a batch of publications matched."""

from collections import defaultdict
from collections.abc import Container, Sequence

Match = tuple[int, list[str], bytes]  # place in the batch, ids of the subscriptions that matched, content


class Matches:
    """Holds ids, so it stays true when subscriptions change later."""

    def __init__(
        self, contents: Sequence[bytes], ids: list[list[str]], homes: list[list[str]] | str, unreadable: int
    ) -> None:
        self._contents = contents
        self._ids = ids
        self._homes = homes  # of each id, or the one of all
        self.unreadable = unreadable  # contents that are no publications

    def __len__(self) -> int:
        return sum(map(len, self._ids))

    def ids(self) -> list[list[str]]:
        """The ids of the subscriptions that each content matched."""
        return self._ids

    def without(self, hidden: Sequence[Container[str]]) -> "Matches":
        """The same without these ids, in as many sets as there are."""

        def counts(id: str) -> bool:
            return not any(id in others for others in hidden)

        if isinstance(self._homes, str):
            kept = [[id for id in ids if counts(id)] for ids in self._ids]
            return Matches(self._contents, kept, self._homes, self.unreadable)
        pairs = [
            [(id, home) for id, home in zip(ids, homes, strict=True) if counts(id)]
            for ids, homes in zip(self._ids, self._homes, strict=True)
        ]
        ids = [[id for id, _ in each] for each in pairs]
        return Matches(self._contents, ids, [[home for _, home in each] for each in pairs], self.unreadable)

    def by_home(self, begin: int = 0, end: int | None = None) -> list[tuple[str, list[Match]]]:
        """Of the contents from `begin` to `end`: by the connection point that delivers, each in the order of the batch.

        This is what a `Partial` carries; places are counted from `begin`.
        """
        homes = self._homes
        by_home: defaultdict[str, list[Match]] = defaultdict(list)
        for place, (ids, content) in enumerate(zip(self._ids[begin:end], self._contents[begin:end], strict=True)):
            if not ids:
                continue
            if isinstance(homes, str):
                by_home[homes].append((place, ids, content))
                continue
            ids_by_home: defaultdict[str, list[str]] = defaultdict(list)
            for id, home in zip(ids, homes[begin + place], strict=True):
                ids_by_home[home].append(id)
            for home, of_home in ids_by_home.items():
                by_home[home].append((place, of_home, content))
        return list(by_home.items())
