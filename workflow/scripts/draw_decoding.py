"""Draw what ridge probes decode from keys and values of one model."""

from anchorflow.decoding_figure import draw_decoding
from anchorflow.logs import job_log
from anchorflow.tables import DECODING, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.decoding
        draw_decoding(
            read_table(path, DECODING),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
