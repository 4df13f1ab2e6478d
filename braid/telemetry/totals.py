"""What the metrics have counted anyway: read when a sample is taken, so that it costs nothing while a slice works."""

from prometheus_client import Counter


def total_of(counter: Counter, **labels: str) -> int:
    """Since the start, over all series that have these labels."""
    wanted = labels.items()
    return int(
        sum(
            sample.value
            for family in counter.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and wanted <= sample.labels.items()
        )
    )
