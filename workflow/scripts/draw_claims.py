"""Draw the effects of the papers' claims on one model, and which of them hold."""

from anchorflow.claims_figure import draw_claims
from anchorflow.logs import job_log
from anchorflow.tables import CLAIMS, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.claims
        draw_claims(
            read_table(path, CLAIMS),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
