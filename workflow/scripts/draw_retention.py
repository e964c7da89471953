"""Draw what compressed prompts retain in one model."""

from anchorflow.logs import job_log
from anchorflow.retention_figure import draw_retention
from anchorflow.tables import RETENTION, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.retention
        draw_retention(
            read_table(path, RETENTION),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
