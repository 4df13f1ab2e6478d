"""The one exception of the filter language."""

# What the parser may expect besides tokens that are written exactly as shown.
_CATEGORIES = frozenset({"attribute", "string", "number", "end of filter"})
_EXCERPT_CHARS_MAX = 100


class FilterError(ValueError):
    """Says what is wrong with a filter and where.

    For the text form `position` is the 0-based offset in `text`. For the JSON form `path` names the
    wrong part, as in `$.and[1].value`; `text` is then empty and `position` is 0.
    """

    def __init__(
        self,
        message: str,
        position: int = 0,
        expected: tuple[str, ...] = (),
        text: str = "",
        path: str | None = None,
    ) -> None:
        # All arguments go to the base class so that the error survives pickling.
        super().__init__(message, position, expected, text, path)
        self.message = message
        self.position = position
        self.expected = expected
        self.text = text
        self.path = path

    def __str__(self) -> str:
        headline = self.message
        if self.expected:
            headline += f"; expected {_listed(self.expected)}"
        if self.path is not None:
            return f"{headline} (at {self.path})"
        excerpt, column = _excerpt(self.text, self.position)
        return f"{headline} (position {self.position})\n  {excerpt}\n  {' ' * column}^"


def quoted(text: str, chars_max: int = 40) -> str:
    """User input as it is shown inside a message: on one line, printable and not too long."""
    return repr(text if len(text) <= chars_max else text[:chars_max] + "…")


def _listed(expected: tuple[str, ...]) -> str:
    shown = [item if item in _CATEGORIES else f"'{item}'" for item in expected]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def _excerpt(text: str, position: int) -> tuple[str, int]:
    """The line that holds the position, cut to a readable length, and the column of the position in it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start:] if end < 0 else text[start:end]
    column = position - start
    cut = max(0, column - _EXCERPT_CHARS_MAX // 2)
    before = "…" if cut else ""
    after = "…" if len(line) > cut + _EXCERPT_CHARS_MAX else ""
    # A tab or a control character would move the caret away from its place.
    visible = "".join(c if c.isprintable() else " " for c in line[cut : cut + _EXCERPT_CHARS_MAX])
    return f"{before}{visible}{after}", column - cut + len(before)
