"""Follows a live cluster: samples of its slices, as they come, become tables of windows of time."""
