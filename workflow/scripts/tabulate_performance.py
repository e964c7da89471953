"""Write the performance of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import PERFORMANCE, read_tables
from anchorflow.tabulate import tabulate_performance, write_csv, write_readable

NOTE = (
    "Means over seeds with bootstrap intervals over seeds and examples; demonstrations fixed per "
    "seed. vanilla: in-context learning as it is; many: with more demonstrations, texts that "
    "re-weighting trains on; calibrated: contextual calibration (Zhao et al. 2021); "
    "attention_regression: logistic regression on attention to the label words; reweighted: β "
    "fitted to the training texts. gain: minus vanilla, paired by example. Of a method that "
    "skipped prompts as too long for the context, figures are over the rest, gains against vanilla "
    "on the rest; averaged only if no task was skipped whole. published: Table 1 of [A], Wang et "
    "al. 2023."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        performance = read_tables(snakemake.input.performance, PERFORMANCE)
        write_csv(snakemake.output.csv, performance)
        write_readable(
            dict(snakemake.output.items()),
            "Re-weighted attention to label words",
            NOTE,
            tabulate_performance(performance),
        )
