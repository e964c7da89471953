"""Write in-context learning of all models beside regressions, as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import REGRESSORS, read_tables
from anchorflow.tabulate import tabulate_regressors, write_csv, write_readable

NOTE = (
    "With as many demonstrations as the budget of tokens allows, the same for every method; "
    "agreement is with the model's own predictions. head: kernel regression on the attention of "
    "one head, the largest to a token of each demonstration; chosen for its agreement on the same "
    "examples (chosen here, as [K] does) or on the other half of the texts (held out). encoder: "
    "kernel regression with a sentence encoder; encoder logistic: logistic regression on its "
    "embeddings. Means over seeds with bootstrap intervals over seeds and examples. "
    "results/tables/regressors.csv also has fewer demonstrations and other kinds of weights."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        regressors = read_tables(snakemake.input.regressors, REGRESSORS)
        write_csv(snakemake.output.csv, regressors)
        write_readable(
            dict(snakemake.output.items()),
            "In-context learning beside regressions on the same demonstrations",
            NOTE,
            tabulate_regressors(regressors),
        )
