"""Measure one analysis, named by a param, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.registry import load
from anchorflow.config.stages import folder_of
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        analysis = load(folder_of(snakemake.params.analysis), "measure")
        analysis.measure(analysis.Cell(snakemake))  # the class with a model, or the one without
