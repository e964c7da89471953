"""Write accuracy and time per query of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import RETENTION, TIMING, read_tables
from anchorflow.tabulate import tabulate_timing, write_csv, write_readable

NOTE = (
    "ms: median time per query [quartiles over queries and repetitions]; times as fast: as full "
    "prompts, medians; build: median time to make the cache, without the fit that re-weighting "
    "takes; break-even: queries after which that has paid; kept: tokens in the cache, in every "
    "layer and head; batch: queries answered together. accuracy and label loyalty: of all seeds, "
    "with bootstrap intervals. Other methods of the compression table that keep as many tokens "
    "take as long as hidden_anchor. Timings vary from run to run and machine to machine."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        timing = read_tables(snakemake.input.timing, TIMING)
        write_csv(snakemake.output.csv, timing)
        write_readable(
            dict(snakemake.output.items()),
            "Accuracy and time per query",
            NOTE,
            tabulate_timing(timing, read_tables(snakemake.input.retention, RETENTION)),
        )
