"""Combine the shards of a stage's tables into one file per table, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.store.gather import gather
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        shards, tables = snakemake.input.shards, snakemake.output
        count = len(shards) // len(tables)
        for place, table in enumerate(tables):
            gather(shards[place * count : (place + 1) * count], table)
