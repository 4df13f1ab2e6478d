"""What is asked of the cluster, one scaling after another, as it is written on the command line."""

from typing import Any, NamedTuple

from braid.topology import CONFIGURED_LAYERS, ROUTINGS

STORY = "matcher=3 matcher=2 matcher=1 exitpoint=2 exitpoint=1 accesspoint=2 accesspoint=1 replace=matcher"
_FORMS = (
    f"expected LAYER=NUMBER ({', '.join(CONFIGURED_LAYERS)}), replace=SLICE, replace=LAYER, or routing=NAME "
    f"({', '.join(ROUTINGS)})"
)


class Step(NamedTuple):
    """One scaling: `matcher=3`, `replace=matcher-1`, `replace=matcher` (the first one configured then), `routing=…`."""

    what: str
    value: str

    def asks(self, cluster: dict[str, Any]) -> tuple[dict[str, int], list[str], str | None]:
        """Layers, slices to replace and routing, for a cluster as `GET /v1/cluster` shows it."""
        if self.what == "routing":
            return {}, [], self.value
        if self.what == "replace":
            return {}, [self._replaced(cluster)], None
        return {self.what: int(self.value)}, [], None

    def title(self, cluster: dict[str, Any]) -> str:
        if self.what == "routing":
            return f"routing {cluster['routing']} → {self.value}"
        if self.what == "replace":
            return f"replace {self._replaced(cluster)}"
        return f"{self.what} {len(configured(cluster, self.what))} → {self.value}"

    def _replaced(self, cluster: dict[str, Any]) -> str:
        """Which slice a layer has depends on the steps before; numbers begin again where slices were taken out."""
        return configured(cluster, self.value)[0] if self.value in CONFIGURED_LAYERS else self.value


def steps_of(text: str) -> list[Step]:
    """Raises `ValueError`. Whether a step is possible is for the cluster to say."""
    steps = [_step_of(word) for word in text.split()]
    if not steps:
        raise ValueError(_FORMS)
    return steps


def _step_of(word: str) -> Step:
    what, _, value = word.partition("=")
    layer, _, number = value.rpartition("-")
    is_step = (
        (what in CONFIGURED_LAYERS and _is_number(value) and int(value) > 0)
        or (what == "replace" and (value in CONFIGURED_LAYERS or (layer in CONFIGURED_LAYERS and _is_number(number))))
        or (what == "routing" and value in ROUTINGS)
    )
    if not is_step:
        raise ValueError(f"{word}: {_FORMS}")
    return Step(what, value)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def configured(cluster: dict[str, Any], layer: str) -> list[str]:
    """Slices that are registered but have no part in the configuration have no epoch."""
    return [each["name"] for each in cluster["slices"] if each["layer"] == layer and each["epoch"] is not None]
