"""Draw one model's weights exp(β) by layer and head, for all tasks."""

from anchorflow.logs import job_log
from anchorflow.reweighting_figure import draw_reweighting
from anchorflow.tables import BETA, read_tables

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        draw_reweighting(
            read_tables(snakemake.input.beta, BETA),
            snakemake.params.style,
            dict(snakemake.output.items()),
        )
