"""Draw each of the papers' claims on all models, with what it compares over their depth."""

from anchorflow.comparison_figure import draw_comparison
from anchorflow.logs import job_log
from anchorflow.tables import (
    CLAIMS,
    CONFUSION,
    DEEP,
    FLOW,
    HEADS,
    LOYALTY,
    read_settings,
    read_tables,
    replacing,
)

SUMMARIES = {"flow": FLOW, "loyalty": LOYALTY, "deep": DEEP, "confusion": CONFUSION, "heads": HEADS}

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input), replacing(snakemake.output[0]) as folder:
        folder.mkdir()
        draw_comparison(
            read_tables(snakemake.input.claims, CLAIMS),
            {name: read_tables(snakemake.input[name], table) for name, table in SUMMARIES.items()},
            snakemake.params.variant,
            snakemake.params.style,
            read_settings(snakemake.input.claims[0])["confidence"],
            folder,
        )
