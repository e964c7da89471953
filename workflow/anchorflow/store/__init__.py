"""Reading and writing: typed Parquet, checksums, atomic replacement, logs, shards, manifest.

This room moves bytes and computes no numbers.
"""
