"""What has changed between two runs of a plan: throughput and cost, kind by kind."""

from spark.report.tables import Row, Tables

_NOISE = 0.1  # what two runs of the same code may differ by, at least


def differences(before: Tables, now: Tables) -> list[str]:
    sentences = []
    known = {_kind(row): row["delivered_s"] for row in before.throughput}
    for row in now.throughput:
        earlier = known.get(_kind(row))
        if not earlier:
            sentences.append(f"{_named(row)}: {row['delivered_s']:,.0f} per second, not measured before.")
            continue
        change = row["delivered_s"] / earlier - 1
        verdict = (
            "about the same" if abs(change) < _NOISE else f"{abs(change):.0%} {'faster' if change > 0 else 'slower'}"
        )
        sentences.append(f"{_named(row)}: {earlier:,.0f} → {row['delivered_s']:,.0f} per second, {verdict}.")
    gone = known.keys() - {_kind(row) for row in now.throughput}
    sentences += [f"{kind[0]} with {kind[1]:,} subscriptions was not measured again." for kind in sorted(gone)]
    return sentences


def _kind(row: Row) -> tuple[str, int, float]:
    return row["configuration"], row["subscriptions"], row["rate"]


def _named(row: Row) -> str:
    return f"{row['configuration']} with {row['subscriptions']:,} subscriptions"
