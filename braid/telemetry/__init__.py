"""What a slice tells of itself every second: how much it handled, how long that took, what it used, what is hot.

Samples go to files or to Kafka (`telemetry.sink`), from where a Spark job follows them. Nothing waits for telemetry:
what cannot be written in time is dropped and counted.
"""
