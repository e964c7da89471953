"""Plot one summary of one model; a param says which."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from inspect import signature

from anchorflow.config.registry import load
from anchorflow.config.stages import presented
from anchorflow.store.job import configuration_of, job, read_inputs
from anchorflow.store.parquet import read_settings

if __name__ == "__main__":
    with job(snakemake):
        word = snakemake.params.presents
        reads = presented(word).shows()
        plot = getattr(load("plot", word), f"plot_{word}")
        # Where there are intervals, a summary among the inputs knows their confidence.
        known = [read_settings(snakemake.input[name][0]).get("confidence") for name in reads]
        intervals = {"confidence": next(filter(None, known), None)}
        plot(
            **read_inputs(snakemake, reads),
            **configuration_of(snakemake.params),
            **{k: v for k, v in intervals.items() if k in signature(plot).parameters},
            paths=dict(snakemake.output.items()),
        )
