"""Draw where on the demonstrations the attention of one model lands."""

from anchorflow.landing_figure import draw_landing
from anchorflow.logs import job_log
from anchorflow.tables import LANDING, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.landing
        draw_landing(
            read_table(path, LANDING),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
