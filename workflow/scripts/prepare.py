"""Prepare what measurements read, with the module that a param names."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.registry import load
from anchorflow.store.cell import Cell
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        folder, _, name = snakemake.params.module.rpartition("/")
        load(folder, name).prepare(Cell(snakemake))
