"""Draw what similar demonstrations gain in one model."""

from anchorflow.logs import job_log
from anchorflow.neighbors_figure import draw_neighbors
from anchorflow.tables import NEIGHBORS, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.neighbors
        draw_neighbors(
            read_table(path, NEIGHBORS),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
