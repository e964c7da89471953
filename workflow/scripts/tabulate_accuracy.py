"""Write the accuracy summary of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import ACCURACY, read_tables
from anchorflow.tabulate import tabulate_accuracy, write_csv, write_readable

NOTE = (
    "Means over seeds with bootstrap intervals over seeds and examples; "
    "demonstrations fixed per seed. majority: what always answering the most frequent "
    "true label would score. skipped: prompts longer than the model's context, not "
    "run."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        accuracy = read_tables(snakemake.input.accuracy, ACCURACY)
        write_csv(snakemake.output.csv, accuracy)
        write_readable(
            dict(snakemake.output.items()),
            "Accuracy of in-context learning",
            NOTE,
            tabulate_accuracy(accuracy),
        )
