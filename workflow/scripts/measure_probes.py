"""Decode keys and values around the label words, for one model, task and seed."""

from anchorflow.logs import job_log
from anchorflow.probes import measure_probes
from anchorflow.tables import PROBES, STATES, read_settings, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path, spec = snakemake.input.states, snakemake.params.spec
        probes = measure_probes(read_table(path, STATES), spec["penalty"])
        settings = {"probes": spec, **read_settings(path)}
        write_frame(snakemake.output[0], PROBES, probes, settings)
