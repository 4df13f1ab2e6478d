"""Publications and subscriptions as DataFrames: generated from a seed, or read from recorded data.

A generated row is a function of its number and the seed, so that neither partitions nor cores change it.
"""
