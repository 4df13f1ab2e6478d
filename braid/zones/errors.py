"""The one exception of zones."""


class ZoneError(ValueError):
    """Says what is wrong with a zone and where: `path` names the wrong part, as in `$.coordinates[0][3]`."""

    def __init__(self, message: str, path: str = "$") -> None:
        # All arguments go to the base class so that the error survives pickling.
        super().__init__(message, path)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.message} (at {self.path})"
