"""The data pipeline on Spark: workloads, and statistics of words.

Jobs are transforms from DataFrame to DataFrame. Only `running.py` and what it calls by name read and write.
"""
