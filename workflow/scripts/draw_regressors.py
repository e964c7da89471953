"""Draw one model's in-context learning beside regressions, over the number of demonstrations."""

from anchorflow.logs import job_log
from anchorflow.regressors_figure import draw_regressors
from anchorflow.tables import REGRESSORS, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.regressors
        draw_regressors(
            read_table(path, REGRESSORS),
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
