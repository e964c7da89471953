"""Probe keys and values around the label words, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.probes import measure_probes
from anchorflow.schemas.kernel import STATES
from anchorflow.schemas.probes import PROBES
from anchorflow.store.job import job
from anchorflow.store.parquet import read_settings, read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        path, spec = snakemake.input.states, snakemake.params.spec
        probes = measure_probes(read_table(path, STATES), spec["penalty"])
        settings = {"probes": spec, **read_settings(path)}
        write_frame(snakemake.output[0], PROBES, probes, settings)
