"""A plan: which configurations are measured under which loads, how often, and where a cluster scales meanwhile.

Plans are TOML files. A cell is one measurement of a plan: one configuration, one load, one rate, one repetition; or one
live scaling. A cell that was measured is known again by its name and by what it was measured with.
"""

import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from benchmarks.scaling.steps import steps_of
from braid.topology import Routing
from spark.errors import ExperimentError
from spark.experiments.configurations import Layout, layout_of

BUILT_IN = Path(__file__).parent / "plans"
SUBSCRIPTIONS_MAX = 10_000_000

Positive = Annotated[int, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Scaling(_Part):
    """One cluster that scales under constant traffic, the experiment of Figure 13."""

    configuration: str
    steps: Annotated[list[str], Field(min_length=1, description="one after the other, e.g. matcher=3")]
    subscriptions: Annotated[int, Field(ge=1, le=SUBSCRIPTIONS_MAX)]
    rate: Annotated[float, Field(gt=0, description="publications per second")] = 2_000.0
    new_subscriptions: Annotated[float, Field(ge=0, description="per second")] = 1_000.0
    calm_s: Annotated[float, Field(gt=0, le=600, description="before, between and after the steps")] = 5.0

    @field_validator("steps")
    @classmethod
    def _are_steps(cls, steps: list[str]) -> list[str]:
        steps_of(" ".join(steps))
        return " ".join(steps).split()

    @field_validator("configuration")
    @classmethod
    def _is_configuration(cls, text: str) -> str:
        return str(layout_of(text))


class Workload(_Part):
    """Directories of Parquet, as `braid experiment workload` makes them."""

    publications: Annotated[str, Field(min_length=1)]
    subscriptions: Annotated[str, Field(min_length=1)]


class Plan(_Part):
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    title: str = ""
    configurations: list[str] = []
    subscriptions: list[Annotated[int, Field(ge=1, le=SUBSCRIPTIONS_MAX)]] = []
    rates: list[Annotated[float, Field(ge=0)]] = [0.0]  # publications per second; 0: as many as are acknowledged
    repetitions: Positive = 1
    seconds: Annotated[int, Field(ge=1, le=3600, description="that a cell is measured")] = 8
    warm_up_s: Annotated[float, Field(ge=0, le=600)] = 2.0
    routing: Routing | None = None  # None: as the cluster starts
    workload: Workload | None = None  # None: each publication matches one subscription
    scalings: list[Scaling] = []

    @field_validator("configurations")
    @classmethod
    def _are_configurations(cls, texts: list[str]) -> list[str]:
        return [str(layout_of(text)) for text in texts]

    @model_validator(mode="after")
    def _has_something_to_measure(self) -> "Plan":
        if self.scalings and not self.configurations and not self.subscriptions:
            return self
        lists = {"configurations": self.configurations, "subscriptions": self.subscriptions, "rates": self.rates}
        if empty := [name for name, values in lists.items() if not values]:
            raise ValueError(f"nothing to measure: {' and '.join(empty)} must not be empty")
        return self

    @model_validator(mode="after")
    def _scales_without_a_workload(self) -> "Plan":
        if self.workload is not None and self.scalings:
            raise ValueError("scalings have a load of their own: leave them out, or the workload")
        return self

    def cells(self) -> Iterator["Cell"]:
        """Repetitions of one kind lie apart, so that a slow minute is not one cell's alone."""
        times = {"seconds": self.seconds, "warm_up_s": self.warm_up_s}
        for repetition in range(1, self.repetitions + 1):
            for subscriptions, configuration, rate in product(self.subscriptions, self.configurations, self.rates):
                yield Cell(
                    layout=layout_of(configuration),
                    subscriptions=subscriptions,
                    rate=rate,
                    repetition=repetition,
                    routing=self.routing,
                    workload=self.workload,
                    **times,
                )
            for scaling in self.scalings:
                yield Cell(
                    layout=layout_of(scaling.configuration),
                    subscriptions=scaling.subscriptions,
                    rate=scaling.rate,
                    repetition=repetition,
                    routing=self.routing,
                    scaling=scaling,
                )


class Cell(BaseModel):
    """All that one measurement depends on."""

    model_config = ConfigDict(frozen=True)

    layout: Layout
    subscriptions: int
    rate: float = 0.0
    repetition: int = 1
    seconds: int = 0  # a scaling lasts as long as its steps
    warm_up_s: float = 0.0
    scaling: Scaling | None = None
    routing: Routing | None = None
    workload: Workload | None = None

    @model_serializer(mode="wrap")
    def _without_what_the_plan_does_not_name(self, serialized: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A cell that was measured before a plan could name these is known again."""
        told: dict[str, Any] = serialized(self)
        return {name: value for name, value in told.items() if value is not None or name not in ("routing", "workload")}

    @property
    def name(self) -> str:
        rate = repr(self.rate).removesuffix(".0") if self.rate else "flood"  # no two rates are written the same
        steps = "" if self.scaling is None else "_" + "_".join(self.scaling.steps)
        return f"{self.layout}_{self.subscriptions}_{rate}{steps}_{self.repetition}"

    @property
    def steps(self) -> str:
        """Of a live scaling; else empty."""
        return "" if self.scaling is None else " ".join(self.scaling.steps)


def read_plan(wanted: str) -> Plan:
    """A built-in one by its name, or any by its path. Raises `ExperimentError`."""
    path = BUILT_IN / f"{wanted}.toml" if (BUILT_IN / f"{wanted}.toml").is_file() else Path(wanted)
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in BUILT_IN.glob("*.toml")))
        raise ExperimentError(f"there is no plan '{wanted}': give the path of a TOML file, or one of: {known}")
    try:
        plan = Plan.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path} is no TOML: {error}") from None
    except ValidationError as error:
        raise ExperimentError(f"{path}:\n{_problems(error)}") from None
    names = [cell.name for cell in plan.cells()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ExperimentError(f"{path}: the same cell twice: {', '.join(twice)}; give each value once")
    return plan


def _problems(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        where = ".".join(map(str, problem["loc"])) or "the plan"
        what = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            what = "there is no such field"
        lines.append(f"  {where}: {what}")
    return "\n".join(lines)
