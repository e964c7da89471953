"""Write what ridge probes decode from keys and values of all models, as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import DECODING, read_tables
from anchorflow.tabulate import tabulate_decoding, write_csv, write_readable

NOTE = (
    "How often ridge regression tells, from a key or a value around a label word, the "
    "demonstration's label, or the likeliest token after its text in the template, without "
    "demonstrations; rounds of one demonstration per label held out in folds, averaged over heads "
    "and tasks, each with the same for shuffled targets, which is chance (labels are shuffled "
    "within rounds). Offset 0 is the label word, which its own key and value name; before it, the "
    "text must tell. At each offset, the layer of largest gain over chance, chosen on these "
    "demonstrations, which flatters it. Means over seeds with bootstrap intervals over seeds and "
    "demonstrations. results/tables/decoding.csv has every layer and task."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        decoding = read_tables(snakemake.input.decoding, DECODING)
        write_csv(snakemake.output.csv, decoding)
        write_readable(
            dict(snakemake.output.items()),
            "What keys and values around label words tell",
            NOTE,
            tabulate_decoding(decoding),
        )
