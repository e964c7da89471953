"""Put the shards of one stage's tables, of a model, task and seed, into one file per table."""

from anchorflow.gather import gather
from anchorflow.logs import job_log

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        shards, tables = snakemake.input.shards, snakemake.output
        count = len(shards) // len(tables)
        for place, table in enumerate(tables):
            gather(shards[place * count : (place + 1) * count], table)
