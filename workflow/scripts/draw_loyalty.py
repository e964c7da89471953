"""Draw how loyal one model stays under isolation."""

from anchorflow.logs import job_log
from anchorflow.loyalty_figure import draw_loyalty
from anchorflow.tables import LOYALTY, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.loyalty
        draw_loyalty(
            read_table(path, LOYALTY),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
