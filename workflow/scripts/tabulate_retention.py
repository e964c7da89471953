"""Write what compressed prompts retain in all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import RETENTION, read_tables
from anchorflow.tabulate import tabulate_retention, write_csv, write_readable

NOTE = (
    "Means over tasks and seeds with bootstrap intervals over seeds, examples and draws; "
    "demonstrations fixed per seed. label_loyalty: share of predictions as with everything kept; "
    "word_loyalty: Jaccard similarity of the five likeliest tokens with those. Without a share, a "
    "method keeps as many tokens as there are anchors (formatting and label words), or what its "
    "name says. hidden_random_oracle: the most loyal of the random draws, chosen on these very "
    "examples as Hidden_random-top in [A]; hidden_random_top: chosen on the other half of them. "
    "reweighted, reweighted_anchor: attention to the label words multiplied by fitted exp(β). "
    "published: Table 2 of Wang et al. 2023. results/tables/retention.csv has every task."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        retention = read_tables(snakemake.input.retention, RETENTION)
        write_csv(snakemake.output.csv, retention)
        write_readable(
            dict(snakemake.output.items()),
            "Compressed demonstrations",
            NOTE,
            tabulate_retention(retention),
        )
