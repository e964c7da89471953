"""Write the confusion of labels of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import CONFUSION, read_tables
from anchorflow.tabulate import tabulate_confusion, write_csv, write_readable

NOTE = (
    "Spearman's rank correlation, over pairs of labels, of how well two labels' examples are told "
    "apart (AUC of the ratio of their probabilities) with the distance of their label words' keys "
    "in a layer, along the principal components of the targets' queries; means over seeds with "
    "bootstrap intervals over seeds and examples, distances held fixed and pairs taken as given. "
    "With few examples of a label, resampling them pulls the interval towards 0. Tasks with fewer "
    "than three labels have no correlation. In layer 0 the target's query varies with its position "
    "alone. results/tables/confusion.csv has every layer, pair and distance."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        confusion = read_tables(snakemake.input.confusion, CONFUSION)
        write_csv(snakemake.output.csv, confusion)
        write_readable(
            dict(snakemake.output.items()),
            "Confusion of labels and distance of their keys",
            NOTE,
            tabulate_confusion(confusion),
        )
