"""Draw accuracy against time per query for one model."""

from anchorflow.logs import job_log
from anchorflow.tables import RETENTION, TIMING, read_settings, read_table, read_tables
from anchorflow.timing_figure import draw_timing

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.retention
        draw_timing(
            read_tables(snakemake.input.timing, TIMING),
            read_table(path, RETENTION),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
