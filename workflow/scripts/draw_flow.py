"""Draw the information flows of one model."""

from anchorflow.flow_figure import draw_flow
from anchorflow.logs import job_log
from anchorflow.tables import FLOW, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.flow
        draw_flow(
            read_table(path, FLOW),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
