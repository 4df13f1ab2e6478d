"""Whether what is asked of a scaling can be done at all. Pure: only the configuration in force is looked at."""

from braid import problems
from braid.problems import Problem
from braid.scaling import Ask
from braid.topology import CONFIGURED_LAYERS, LAYERS, Configuration

SLICES_MAX = 64  # of one layer, as in the settings


def check_ask(ask: Ask, configuration: Configuration) -> None:
    """Raises the problem that names the field: `$.layers.matcher`, `$.replace[0]`, or `$` when nothing is asked."""
    if ask == Ask():
        raise problems.invalid(
            "$", "nothing is asked for; give 'layer' and 'to', 'layers', 'replace', 'routing', 'map', or several"
        )
    for layer, number in ask.layers.items():
        check_layer(f"$.layers.{layer}", layer)
        if not 1 <= number <= SLICES_MAX:
            raise problems.invalid(f"$.layers.{layer}", f"{layer}={number}: a layer has from 1 to {SLICES_MAX} slices")
    configured = [name for layer in CONFIGURED_LAYERS for name in configuration.in_force().of_layer(layer)]
    for place, name in enumerate(ask.replace):
        field = f"$.replace[{place}]"
        if name.rpartition("-")[0] == "connpoint":
            raise _about_connection_points(field)
        if name not in configured:
            raise problems.invalid(field, f"{name[:100]} cannot be replaced, it is not configured", expected=configured)
        if name in ask.replace[:place]:
            raise problems.invalid(field, f"{name} is to be replaced twice")
    if ask.named_map is not None and (ask.routing or configuration.in_force().routing) != "anchored":
        raise problems.invalid(
            "$.map",
            "a map says where anchors lie, and with the routing 'broadcast' subscriptions do not lie by their anchors; "
            "ask for the routing 'anchored' too",
        )


def refusal(ask: Ask, configuration: Configuration) -> str | None:
    """Why this cannot be done, in words for whoever asked; None when it can."""
    try:
        check_ask(ask, configuration)
    except Problem as problem:
        return problem.detail
    return None


def check_layer(field: str, layer: str) -> None:
    if layer == "connpoint":
        raise _about_connection_points(field)
    if layer not in LAYERS:
        raise problems.invalid(field, f"there is no layer '{layer[:100]}'", expected=list(CONFIGURED_LAYERS))


def _about_connection_points(field: str) -> Problem:
    return problems.invalid(
        field,
        "connection points are not scaled: start another one (braid up --slices connpoint=2, or python -m "
        "services.connpoint --name connpoint-2), and it takes part as soon as it registers; stop one to take it out",
    )
