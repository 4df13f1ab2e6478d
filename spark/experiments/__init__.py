"""Experiments against a real cluster: plans, the driver, and what it measures."""
