"""Draw how attention tells the predictions of one model."""

from anchorflow.deep_figure import draw_deep
from anchorflow.logs import job_log
from anchorflow.tables import DEEP, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.deep
        draw_deep(
            read_table(path, DEEP),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
