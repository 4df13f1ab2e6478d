"""How many subscriptions are kept under each anchor, of which there may be a million.

They lie on pages, in the order in which they came, so that a list of all of them can be walked bit by bit while some
come and go: whoever walks copies a page at a time.
"""

from collections.abc import Iterator

from braid.id_tables import IdMap

PAGE_MAX = 1_000  # anchors that ever came to one page


class AnchorCounts:
    def __init__(self) -> None:
        self._page_of: IdMap[int] = IdMap()
        self._pages: dict[int, dict[str, int]] = {}  # counts by anchor; none of the pages is empty
        self._last_page = 0
        self._room = 0  # on the last page

    def __len__(self) -> int:
        return len(self._page_of)

    def __contains__(self, anchor: str) -> bool:
        return anchor in self._page_of

    def add(self, anchor: str) -> bool:
        """Whether it is the first under this anchor."""
        number = self._page_of.get(anchor)
        if number is not None:
            self._pages[number][anchor] += 1
            return False
        if not self._room:
            self._last_page, self._room = self._last_page + 1, PAGE_MAX
        self._room -= 1
        self._page_of[anchor] = self._last_page
        self._pages.setdefault(self._last_page, {})[anchor] = 1
        return True

    def take(self, anchor: str) -> bool:
        """Whether it was the last one under this anchor."""
        number = self._page_of[anchor]
        page = self._pages[number]
        page[anchor] -= 1
        if page[anchor]:
            return False
        del page[anchor], self._page_of[anchor]
        if not page:
            del self._pages[number]
        return True

    def page_of(self, anchor: str) -> int | None:
        return self._page_of.get(anchor)

    def walk(self) -> Iterator[tuple[int, str]]:
        """All that are there now and still are when their turn comes, by pages. Of those that come meanwhile some."""
        for number in list(self._pages):
            for anchor in list(self._pages.get(number, ())):
                if self._page_of.get(anchor) == number:
                    yield number, anchor
