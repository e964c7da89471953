"""Reading and writing: typed Parquet, checksums, atomic replacement, logs, shards, manifest.

This package moves bytes and computes no numbers.
"""
