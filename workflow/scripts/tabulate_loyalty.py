"""Write the loyalty summary of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import LOYALTY, read_tables
from anchorflow.tabulate import tabulate_loyalty, write_csv, write_readable

NOTE = (
    "Means over tasks and seeds with bootstrap intervals over seeds, examples and draws of random "
    "positions; demonstrations fixed per seed. The isolated positions may not attend to earlier "
    "tokens in the first or last layers, as many as said. label_loyalty: share of predictions as "
    "in the untouched run; word_loyalty: Jaccard similarity of the likeliest tokens with those of "
    "the untouched run; divergence: of the label distribution from the untouched one, in nats. "
    "results/tables/loyalty.csv has every task."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        loyalty = read_tables(snakemake.input.loyalty, LOYALTY)
        write_csv(snakemake.output.csv, loyalty)
        write_readable(
            dict(snakemake.output.items()),
            "Loyalty under isolation",
            NOTE,
            tabulate_loyalty(loyalty),
        )
