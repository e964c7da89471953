"""Draw how well each head of one model reconstructs its predictions."""

from anchorflow.heads_figure import draw_heads
from anchorflow.logs import job_log
from anchorflow.tables import HEADS, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.heads
        draw_heads(
            read_table(path, HEADS),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
