"""Write what similar demonstrations gain in all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import NEIGHBORS, read_tables
from anchorflow.tabulate import tabulate_neighbors, write_csv, write_readable

NOTE = (
    "Means over seeds with bootstrap intervals over seeds and examples. random: demonstrations "
    "drawn once per seed, equally many of each label; nearest: as many training texts, those most "
    "similar to the test text by the cosine of a sentence encoder's embeddings, the most similar "
    "last (Liu et al. 2022); nearest_per_label: the most similar ones of each label, as many of "
    "each as with random. similarity: that cosine, averaged over the demonstrations; same_label: "
    "share of them that carry the test text's label; accuracy_gain: minus random, paired by "
    "example. Texts identical to the test text are left out of nearest ones. Prompts that exceed "
    "the context are skipped; pairs with one are left out of the gain."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        neighbors = read_tables(snakemake.input.neighbors, NEIGHBORS)
        write_csv(snakemake.output.csv, neighbors)
        write_readable(
            dict(snakemake.output.items()),
            "Similar demonstrations",
            NOTE,
            tabulate_neighbors(neighbors),
        )
