"""Write the deep summary of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import DEEP, read_tables
from anchorflow.tabulate import tabulate_deep, write_csv, write_readable

NOTE = (
    "Layers counted from 0, five depths per model. auc: AUCROC_l (0.5 is chance); "
    "cumulative: R_l, the share of all layers' excess over 0.5 reached by this layer, "
    "and – where there is no excess to share. unpredicted: classes that the model "
    "never predicts, summed over seeds and left out. results/tables/deep.csv has "
    "every layer."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        deep = read_tables(snakemake.input.deep, DEEP)
        write_csv(snakemake.output.csv, deep)
        write_readable(
            dict(snakemake.output.items()),
            "Label-word attention as a predictor of the model's own predictions",
            NOTE,
            tabulate_deep(deep),
        )
