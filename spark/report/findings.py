"""What the tables show, in words. Every sentence is made from the numbers it speaks of."""

from collections.abc import Iterator

from spark.report.tables import Row, Tables


def findings(tables: Tables) -> list[str]:
    return [*_throughput(tables), *_exit_points(tables), *_cost(tables), *_scalings(tables), *_ledger(tables)]


def _throughput(tables: Tables) -> Iterator[str]:
    flooded = [row for row in tables.throughput if row["rate"] == 0]
    for load in sorted({row["subscriptions"] for row in flooded}):
        rows = [row for row in flooded if row["subscriptions"] == load]
        best = max(rows, key=lambda row: float(row["delivered_s"]))
        sentence = (
            f"With {load:,} subscriptions {best['configuration']} delivers most: "
            f"{best['delivered_s']:,.0f} notifications per second"
        )
        base = next((row for row in rows if row["configuration"] == "1-1-1"), None)
        if base is not None and base is not best and base["delivered_s"]:
            sentence += f", {best['delivered_s'] / base['delivered_s']:.2f} times 1-1-1"
        yield sentence + "."
    loads = sorted({row["subscriptions"] for row in flooded})
    alone = {row["subscriptions"]: row["delivered_s"] for row in flooded if row["configuration"] == "1-1-1"}
    if len(alone) > 1 and alone[min(alone)]:
        kept = alone[max(alone)] / alone[min(alone)]
        yield (
            f"From {min(loads):,} to {max(loads):,} subscriptions one matcher keeps {kept:.0%} of its throughput; "
            "each publication matches one of them."
        )


def _exit_points(tables: Tables) -> Iterator[str]:
    ratios = [row["dominance"] for row in tables.dominance if row["dominance"] is not None and row["rate"] == 0]
    if ratios:
        better = sum(ratio > 1 for ratio in ratios)
        yield (
            f"A second exit point was faster in {better} of {len(ratios)} comparisons "
            f"({min(ratios):.2f} to {max(ratios):.2f} times)."
        )


def _cost(tables: Tables) -> Iterator[str]:
    cores = tables.machine.get("cores")
    wide = [row for row in tables.cores if cores and row["cores"] > 0.8 * cores]
    if wide:
        yield (
            f"In {len(wide)} of {len(tables.cores)} cells the slices kept more than four fifths of the {cores} cores "
            "busy, besides what publishes and receives: there the machine is the limit, not the configuration. "
            "Processor time for a publication and deliveries per core say what further cores would give."
        )


def _scalings(tables: Tables) -> Iterator[str]:
    for row in tables.silences:
        phases = [one for one in tables.phases if _is_same_step(one, row)]
        lasted_s = max((one["end_s"] for one in phases), default=0.0)
        moved = max((one["moved"] for one in phases), default=0)
        yield (
            f"{row['step']} from {row['configuration']} with {row['subscriptions']:,} subscriptions took "
            f"{lasted_s:.1f} s and moved {moved:,}; the longest time without any delivery was "
            f"{1000 * row['silent_s']:.0f} ms, in bins of 50 ms."
        )


def _is_same_step(one: Row, other: Row) -> bool:
    same = ("configuration", "subscriptions", "rate", "repetition", "step")
    return all(one[name] == other[name] for name in same)


def _ledger(tables: Tables) -> Iterator[str]:
    sent = sum(ledger.get("sent", 0) for ledger in tables.ledgers)
    lost = sum(ledger.get("lost", 0) for ledger in tables.ledgers)
    twice = sum(ledger.get("twice", 0) for ledger in tables.ledgers)
    yield f"Of {sent:,} publications in {len(tables.ledgers)} cells {lost} were lost and {twice} came twice."
