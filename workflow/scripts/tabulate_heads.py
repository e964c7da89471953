"""Write how well the heads of all models reconstruct predictions, as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import HEADS, read_tables
from anchorflow.tabulate import tabulate_heads, write_csv, write_readable

NOTE = (
    "The five heads whose attention, as weights of the demonstrations' labels, agrees most often "
    "with the model's predictions, by task and averaged over tasks; weights are the largest "
    "attention to a token of each demonstration. Means over seeds with bootstrap intervals over "
    "seeds and examples. They were chosen on these very examples, so their agreement is too high; "
    "results/tables/regressors.md has it held out. Correlation is that of the weights with the "
    "similarity of next-token distributions after each text in the template, without "
    "demonstrations. results/tables/heads.csv has every head and kind of weights."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        heads = read_tables(snakemake.input.heads, HEADS)
        write_csv(snakemake.output.csv, heads)
        write_readable(
            dict(snakemake.output.items()),
            "Heads whose attention reconstructs predictions",
            NOTE,
            tabulate_heads(heads),
        )
