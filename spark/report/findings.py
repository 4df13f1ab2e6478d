"""What the tables show, in words. Every sentence is made from the numbers it speaks of."""

from collections.abc import Iterable, Iterator
from statistics import median

from benchmarks.scaling.measured import wrongly_kept
from spark.analysis.throughput import BASELINE
from spark.report import naming
from spark.report.steps import lasted_s, of_step
from spark.report.tables import Row, Tables, flooded

_EVEN = 0.05  # two throughputs that are closer are called equal
_WRONG = {"lost": "lost", "twice": "twice", "out_of_order": "out of order", "unwanted": "unwanted"}
_NAMED = 3  # cells of as many that have failed for the same reason
_DISTURBED = 0.1  # of the cores: a cell in which others held more is named


def in_short(tables: Tables) -> list[str]:
    """The first sentence of each part that has any, what is missing or was disturbed, and the ledger."""
    parts = (throughput(tables), slices(tables), cost(tables), scalings(tables))
    return [*(part[0] for part in parts if part), *unfinished(tables), *disturbed(tables), ledger(tables)]


def throughput(tables: Tables) -> list[str]:
    rows = flooded(tables.throughput)
    loads = sorted({row["subscriptions"] for row in rows})
    best = [max((row for row in rows if row["subscriptions"] == load), key=_delivered) for load in loads]
    found = []
    alone = {row["subscriptions"]: row["delivered_s"] for row in rows if row["configuration"] == BASELINE}
    if len(alone) > 1 and alone[min(alone)]:
        kept = alone[max(alone)] / alone[min(alone)]
        found.append(
            f"With one slice of each layer, from {min(alone):,} to {max(alone):,} subscriptions, {kept:.0%} of the "
            f"throughput remains: {alone[min(alone)]:,.0f} and {alone[max(alone)]:,.0f} notifications per second."
        )
    for row in best:
        base = alone.get(row["subscriptions"])
        times = f", {row['delivered_s'] / base:.2f} times 1-1-1" if base and row["configuration"] != BASELINE else ""
        found.append(
            f"With {row['subscriptions']:,} subscriptions {row['configuration']} delivers most: "
            f"{row['delivered_s']:,.0f} notifications per second{times}."
        )
    return found


def slices(tables: Tables) -> list[str]:
    return [*_speedups(tables), *_karp_flatt(tables), *_exit_points(tables)]


def _speedups(tables: Tables) -> Iterator[str]:
    larger = [row for row in flooded(tables.speedup) if row["processors"] > 1 and row["speedup"] is not None]
    if not larger:
        return
    faster = [row for row in larger if row["speedup"] > 1 + _EVEN]
    slower = [row for row in larger if row["speedup"] < 1 - _EVEN]
    best = max(larger, key=lambda row: float(row["speedup"]))
    yield (
        f"Of {len(larger)} measurements with more slices than 1-1-1, {len(faster)} were more than {_EVEN:.0%} faster "
        f"and {len(slower)} slower under the same load; the largest speedup is {best['speedup']:.2f}, of "
        f"{best['configuration']} with {best['subscriptions']:,} subscriptions."
    )
    cores = tables.machine.get("cores")
    if cores and cores < max(row["accesspoints"] + row["matchers"] + row["exitpoints"] + 1 for row in larger):
        yield (
            f"The slices share {cores} cores with one another and with what publishes and receives, so another slice "
            "brings no core: what it costs shows here, what it would bring with a core of its own does not."
        )


def _karp_flatt(tables: Tables) -> Iterator[str]:
    known = [row for row in flooded(tables.speedup) if row["karp_flatt"] is not None]
    for load in sorted({row["subscriptions"] for row in known}):
        parts = [row["karp_flatt"] for row in known if row["subscriptions"] == load]
        above = sum(part > 1 for part in parts)
        reading = "the part of the work that more slices do not speed up"
        if above:
            which = "" if above == len(parts) else f" in {above} of {len(parts)} configurations"
            reading = f"more than all of the work{which}: slices cost more than they bring there"
        yield (f"With {load:,} subscriptions the Karp-Flatt metric is {min(parts):.2f} to {max(parts):.2f}, {reading}.")


def _exit_points(tables: Tables) -> Iterator[str]:
    ratios = [row["dominance"] for row in flooded(tables.dominance) if row["dominance"] is not None]
    if ratios:
        faster = sum(ratio > 1 + _EVEN for ratio in ratios)
        slower = sum(ratio < 1 - _EVEN for ratio in ratios)
        yield (
            f"Of {len(ratios)} comparisons, a second exit point was more than {_EVEN:.0%} faster in {faster}, slower "
            f"in {slower} and about as fast in {len(ratios) - faster - slower} ({min(ratios):.2f} to "
            f"{max(ratios):.2f} times)."
        )


def has_two_exit_points(tables: Tables) -> bool:
    """With more than one number of matchers: one alone shows nothing of how a speedup grows."""
    return len({row["matchers"] for row in flooded(tables.speedup) if row["exitpoints"] == 2}) > 1


def left_out(tables: Tables) -> list[str]:
    """Figures 7 to 13 that cannot be drawn, each with what would have to be measured."""
    grown = any(row["processors"] > 1 for row in flooded(tables.speedup))
    figures = (
        ("Figure 7", flooded(tables.throughput), "a flood"),
        ("Figure 8", grown and tables.dominance, "one and two exit points with as many matchers"),
        ("Figures 9, 11 and 12", grown, "a flood of 1-1-1 and of a larger configuration"),
        ("Figure 10", grown and has_two_exit_points(tables), "two exit points with two numbers of matchers"),
        ("Figure 13", tables.silences, "a live scaling"),
    )
    return [f"Left out for want of {what}: {name}." for name, is_there, what in figures if not is_there]


def cost(tables: Tables) -> list[str]:
    return [*_cost_of_one(tables), *_busy(tables), *_per_core(tables)]


def _cost_of_one(tables: Tables) -> Iterator[str]:
    rows = [row for row in flooded(tables.cost) if row["cpu_us_per_publication"] is not None]
    for load in sorted({row["subscriptions"] for row in rows if row["configuration"] == BASELINE}):
        of = [row for row in rows if (row["subscriptions"], row["configuration"]) == (load, BASELINE)]
        of.sort(key=lambda row: -float(row["cpu_us_per_publication"]))
        total = sum(row["cpu_us_per_publication"] for row in of)
        shares = ", ".join(f"{row['layer']} {row['cpu_us_per_publication']:.1f}" for row in of)
        yield (
            f"In 1-1-1 with {load:,} subscriptions a delivered publication costs {total:.1f} µs of processor time "
            f"({shares})."
        )


def _busy(tables: Tables) -> Iterator[str]:
    cores = tables.machine.get("cores")
    rows = flooded(tables.cores)
    if not cores or not rows:
        return
    ours, load, stolen = (median(row[name] for row in rows) for name in ("cores", "load_cores", "stolen_cores"))
    others = median(_other_programs(row) for row in rows)
    is_full = median(row["machine_cores"] + row["stolen_cores"] for row in rows) > 0.9 * cores
    full = "the machine was full, so it is the limit" if is_full else "the machine was not full"
    yield (
        f"Of {cores} cores the slices kept {ours:.2f} busy, what publishes and receives {load:.2f}, everything else "
        f"(ZooKeeper, the system, other programs) {others:.2f}, and the host gave {stolen:.2f} to other machines, in "
        f"the median of all cells: {full}."
    )


def disturbed(tables: Tables) -> Iterator[str]:
    """Cells in which others had so much of the machine that their numbers say little of the broker."""
    cores = tables.machine.get("cores")
    if not cores:
        return
    named = []
    for row in tables.holders:
        programs, machines = _other_programs(row) / cores, row["stolen_cores"] / cores
        if programs + machines > _DISTURBED:
            named.append(f"{naming.cell(row, tables)} (programs {programs:.0%}, machines {machines:.0%})")
    if named:
        yield (
            f"In {len(named)} of {len(tables.holders)} cells other programs, ZooKeeper and the system among them, and "
            f"other machines held more than {_DISTURBED:.0%} of the {cores} cores, so these say less of the broker: "
            f"{'; '.join(named)}."
        )


def _other_programs(row: Row) -> float:
    """In cores."""
    return max(0.0, float(row["machine_cores"] - row["cores"] - row["load_cores"]))


def _per_core(tables: Tables) -> Iterator[str]:
    known = [row for row in flooded(tables.cores) if row["speedup_per_core"] and row["configuration"] != BASELINE]
    if known:
        best = max(known, key=lambda row: float(row["speedup_per_core"]))
        least = min(known, key=lambda row: float(row["speedup_per_core"]))
        yield (
            f"For each core that was used, configurations with more slices deliver {least['speedup_per_core']:.2f} "
            f"({least['configuration']} with {least['subscriptions']:,} subscriptions) to "
            f"{best['speedup_per_core']:.2f} times ({best['configuration']} with {best['subscriptions']:,}) what 1-1-1 "
            "does."
        )


def scalings(tables: Tables) -> list[str]:
    found = []
    for row in tables.silences:
        moved = max((one["moved"] for one in of_step(tables.phases, row)), default=0)
        rates = {one["part"]: one["delivered_s"] for one in of_step(tables.rates, row)}
        around = ""
        if "before" in rates and "after" in rates:
            around = (
                f" {rates['before']:,.0f} notifications came per second before it and {rates['after']:,.0f} after it."
            )
        found.append(
            f"{row['step']} {naming.scaled_from(row, tables)}, took {lasted_s(tables, row):.1f} s and moved {moved:,} "
            f"subscriptions, those that came meanwhile among them; the longest time without any delivery was "
            f"{1000 * row['silent_s']:.0f} ms, in bins of 50 ms.{around}"
        )
    return found


def unfinished(tables: Tables) -> Iterator[str]:
    """Cells of which nothing is told here, and those that were not measured at the first attempt."""
    last = {failure["cell"]: failure["reason"] for failure in tables.failures}
    if tables.missing:
        reasons = [(last.get(cell, "not measured yet"), cell) for cell in tables.missing]
        yield (
            f"{len(tables.missing)} of {naming.cells_wanted(tables)} cells are missing, and nothing here counts them: "
            f"{_by_reason(reasons)}."
        )
    later = [(one["reason"], one["cell"]) for one in tables.failures if one["cell"] not in tables.missing]
    if later:
        yield f"Cells that failed before they were measured: {_by_reason(later)}."


def _by_reason(failed: Iterable[tuple[str, str]]) -> str:
    """A cell once with each reason, however often it was tried; of many with the same one a few are named."""
    cells: dict[str, dict[str, None]] = {}
    for reason, cell in failed:
        cells.setdefault(reason, {})[cell] = None
    return "; ".join(f"{_few(list(named))} ({reason})" for reason, named in cells.items())


def _few(names: list[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names)} cells, {', '.join(names[:_NAMED])} among them"


def ledger(tables: Tables) -> str:
    sent, lost, twice, late, unwanted = (
        sum(ledger.get(name, 0) for ledger in tables.ledgers) for name in ("sent", *_WRONG)
    )
    wrong = [told for ledger in tables.ledgers if (told := _wrong(ledger))]
    return (
        f"Of {sent:,} publications in {len(tables.ledgers)} cells {lost:,} were lost, {twice:,} came twice, {late:,} "
        f"out of order and {unwanted:,} unwanted{': ' if wrong else ''}{'; '.join(wrong)}."
    )


def _wrong(ledger: Row) -> str:
    """What did not come as it should in a cell; nothing, where all did."""
    found = [f"{ledger[name]:,} {word}" for name, word in _WRONG.items() if ledger.get(name)]
    found += [f"{ledger['refused']:,} refused"] if ledger.get("refused") else []
    if "kept_at_end" in ledger:  # of a live scaling
        expected = ledger["subscriptions"] + ledger["new_at_end"]
        found += wrongly_kept(ledger["kept_at_end"], expected, ledger["new_refused"])
    return f"{ledger.get('cell')} ({', '.join(found)})" if found else ""


def _delivered(row: Row) -> float:
    return float(row["delivered_s"])
