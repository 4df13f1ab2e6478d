"""Maps of the anchors that simulated subscriptions have, as scalings ask for them."""

from random import Random

from braid.anchor_map import AnchorMap
from braid.anchors import place_of
from braid.scaling import NO_MAP, Ask
from braid.topology import Configuration, Routing

NUMBERS = 400  # of subscriptions without an anchor, whose ids end with them

MAP_ODDS = 0.5
ALONE_ODDS = 0.4  # of a map that is asked for without anything else


class MapDrawing:
    """Draws by itself, so that what else a seed does is what it does without maps."""

    def __init__(self, seed: int, sensor_count: int) -> None:
        self._random = Random(f"maps of {seed}")
        self._places = [*(place_of(f"filter:sensor = {sensor}") for sensor in range(sensor_count)), *range(NUMBERS)]

    def with_map(self, ask: Ask, configuration: Configuration) -> tuple[Ask, AnchorMap | None]:
        """Perhaps with a map, another one or none, as far as there can be one; perhaps with nothing else."""
        routing: Routing = ask.routing or configuration.routing
        if routing != "anchored" or self._random.random() >= MAP_ODDS:
            return ask, None
        if configuration.routing == "anchored" and self._random.random() < ALONE_ODDS:
            ask = Ask()
        map = self.draw() if self._random.random() < 0.8 else None
        asked = NO_MAP if map is None else map.version
        return Ask(ask.layers, ask.replace, ask.routing, asked), map

    def draw(self) -> AnchorMap:
        parts = self._random.randint(1, 4)
        named = [place for place in self._places if self._random.random() < 0.7]
        return AnchorMap(parts, {place: self._random.randrange(parts) for place in named})
