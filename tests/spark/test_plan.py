"""Plans: what they may say, and the cells they come to."""

import re
from pathlib import Path

import pytest

from spark.errors import ExperimentError
from spark.experiments.configurations import Layout, layout_of
from spark.experiments.plan import Cell, Workload, read_plan

WORKLOAD = '[workload]\npublications = "readings"\nsubscriptions = "alarms"'
SCALING = '[[scalings]]\nconfiguration = "1-1-1"\nsteps = ["matcher=3"]\nsubscriptions = 5'


def written(path: Path, text: str) -> str:
    plan = path / "plan.toml"
    plan.write_text(text)
    return str(plan)


def test_a_plan_comes_to_its_cells(tmp_path: Path) -> None:
    plan = read_plan(
        written(
            tmp_path,
            """
            name = "small"
            configurations = ["1-1-1", "1-2-2"]
            subscriptions = [100, 1_000]
            repetitions = 2
            [[scalings]]
            configuration = "1-1-1"
            steps = ["matcher=3", "matcher=1"]
            subscriptions = 500
            """,
        )
    )
    names = [cell.name for cell in plan.cells()]
    assert names[:5] == [
        "1-1-1_100_flood_1",
        "1-2-2_100_flood_1",
        "1-1-1_1000_flood_1",
        "1-2-2_1000_flood_1",
        "1-1-1_500_2000_matcher=3_matcher=1_1",
    ]
    assert len(names) == len(set(names)) == 10


def test_a_plan_may_be_scalings_alone(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, f'name = "p"\n{SCALING}'))
    assert [(cell.name, cell.steps) for cell in plan.cells()] == [("1-1-1_5_2000_matcher=3_1", "matcher=3")]


def test_rates_that_differ_are_cells_of_their_own(tmp_path: Path) -> None:
    rates = "rates = [0, 2_000, 0.5, 1_234_567, 1_234_568, 1e17]"
    plan = read_plan(written(tmp_path, f'name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [5]\n{rates}'))
    told = [cell.name.split("_")[2] for cell in plan.cells()]
    assert told == ["flood", "2000", "0.5", "1234567", "1234568", "1e+17"]


def test_steps_are_one_after_the_other_however_they_are_written(tmp_path: Path) -> None:
    text = f'name = "p"\n{SCALING}'.replace('"matcher=3"', '"matcher=3  matcher=1"')
    (cell,) = read_plan(written(tmp_path, text)).cells()
    assert cell.name == "1-1-1_5_2000_matcher=3_matcher=1_1"
    assert cell.steps == "matcher=3 matcher=1"


def test_all_cells_of_a_plan_have_its_workload_and_routing(tmp_path: Path) -> None:
    plan = read_plan(
        written(
            tmp_path,
            """
            name = "alarms"
            configurations = ["1-1-1", "1-2-1"]
            subscriptions = [100]
            routing = "anchored"
            [workload]
            publications = "readings"
            subscriptions = "alarms"
            """,
        )
    )
    one, other = plan.cells()
    assert one.workload == other.workload == Workload(publications="readings", subscriptions="alarms")
    assert (one.routing, one.name) == ("anchored", "1-1-1_100_flood_1")
    told = one.model_dump(mode="json")
    assert told["routing"] == "anchored"
    assert told["workload"] == {"publications": "readings", "subscriptions": "alarms"}


def test_scalings_have_the_routing_too(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, f'name = "p"\nrouting = "anchored"\n{SCALING}'))
    assert [cell.routing for cell in plan.cells()] == ["anchored"]


def test_a_cell_without_a_workload_is_known_again_as_before_there_were_some() -> None:
    assert Cell(layout=Layout(1, 2, 1), subscriptions=1000, seconds=2).model_dump(mode="json") == {
        "layout": [1, 2, 1],
        "subscriptions": 1000,
        "rate": 0.0,
        "repetition": 1,
        "seconds": 2,
        "warm_up_s": 0.0,
        "scaling": None,
    }


@pytest.mark.parametrize("name", ["quick", "paper"])
def test_built_in_plans_can_be_read(name: str) -> None:
    plan = read_plan(name)
    assert plan.name == name
    assert list(plan.cells())


def test_the_plans_of_the_document_can_be_read(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    texts = re.findall(r"^```toml\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    assert [read_plan(written(tmp_path, text)).name for text in texts] == ["mine", "alarms"]


def test_the_quick_plan_has_what_was_asked_for() -> None:
    plan = read_plan("quick")
    assert plan.configurations == ["1-1-1", "1-2-1", "1-3-1", "1-2-2"]
    assert plan.subscriptions == [1_000, 10_000, 100_000]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = []', "nothing to measure"),
        ('name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [10]\nrates = []', "nothing to measure"),
        ('name = "p"\ncolour = "red"\nconfigurations = ["1-1-1"]', "colour: there is no such field"),
        ('name = "p"\nconfigurations = ["1-1"]', "write access points, matchers and exit points, as in 1-3-2"),
        ('name = "p"\nconfigurations = ["1-0-1"]', "each layer has 1 to 16 slices"),
        ('name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [0]', "subscriptions.0: Input should be greater"),
        ('name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [10, 10]', "the same cell twice: 1-1-1_10_flood_1"),
        (
            'name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [10]\nseconds = 0',
            "seconds: Input should",
        ),
        (f'name = "p"\nconfigurations = ["1-1-1"]\n{SCALING}', "nothing to measure: subscriptions must not be empty"),
        ('name = "P!"', "name: String should match"),
        ("name = ", "is no TOML"),
        ('name = "p"\n[[scalings]]\nconfiguration = "1-1-1"\nsteps = []\nsubscriptions = 5', "scalings.0.steps"),
        (
            'name = "p"\n[[scalings]]\nconfiguration = "1-1-1"\nsteps = ["matcher"]\nsubscriptions = 5',
            "matcher: expected LAYER=NUMBER",
        ),
        (
            'name = "p"\n[[scalings]]\nconfiguration = "1-1-1"\nsteps = ["matcher=0"]\nsubscriptions = 5',
            "matcher=0: expected LAYER=NUMBER",
        ),
        (
            'name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [1]\nrates = [inf]',
            "rates.0: Input should be a fin",
        ),
        ('name = "p"\nconfigurations = ["1-1-1"]\nsubscriptions = [1]\nrates = [nan]', "rates.0: Input should be"),
        (f'name = "p"\n{SCALING}\nrate = inf', "scalings.0.rate: Input should be a finite number"),
        ('name = "p"\nrouting = "random"', "routing: Input should be 'broadcast' or 'anchored'"),
        ('name = "p"\n[workload]\npublications = "readings"', "workload.subscriptions: Field required"),
        (f'name = "p"\n{WORKLOAD}\nseed = 7', "workload.seed: there is no such field"),
        (f'name = "p"\n{WORKLOAD}', "nothing to measure: configurations and subscriptions must not be empty"),
        (f'name = "p"\n{WORKLOAD}\n{SCALING}', "scalings have a load of their own: leave them out, or the workload"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        read_plan(written(tmp_path, text))
    assert says in str(caught.value)


def test_a_plan_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ExperimentError, match=r"there is no plan 'slow'.*paper, quick"):
        read_plan("slow")


def test_a_configuration_reads_as_it_is_written() -> None:
    assert layout_of("1-3-2") == Layout(1, 3, 2)
    assert str(Layout(1, 3, 2)) == "1-3-2"
    assert Layout(1, 3, 2).slices == "accesspoint=1,matcher=3,exitpoint=2"
