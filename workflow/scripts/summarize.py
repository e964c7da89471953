"""Summarize one stage of one model over tasks and seeds; a param says which."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.registry import load
from anchorflow.config.stages import presented
from anchorflow.store.all_tables import TABLES
from anchorflow.store.job import configuration_of, job, read_inputs, slices_of
from anchorflow.store.parquet import read_settings, write_frame

if __name__ == "__main__":
    with job(snakemake):
        word = snakemake.params.presents
        shown = presented(word)
        summarize = getattr(load("summarize", word), f"summarize_{word}")
        named = dict(snakemake.input.items())
        reads = {name: read for name, read in shown.may_read().items() if name in named}
        summary = summarize(**read_inputs(snakemake, reads), **configuration_of(snakemake.params))
        slices = slices_of(snakemake.params)
        settings = {**slices.pop("statistics"), **slices}
        for name in shown.measured_in():
            settings |= read_settings(snakemake.input[name][0])
        write_frame(snakemake.output[0], TABLES[word], summary, settings)
