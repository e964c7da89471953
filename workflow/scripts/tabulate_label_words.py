"""Write what other label words change in all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import LABEL_WORDS, read_tables
from anchorflow.tabulate import tabulate_label_words, write_csv, write_readable

NOTE = (
    "words: the task's own label words; other rows: those of that name in the configuration. Means "
    "over seeds with bootstrap intervals over seeds and examples, the same ones for all words; the "
    "average is over the tasks that have the words. accuracy: share of predictions that are the "
    "word shown with the true label; accuracy_change: minus that with the own words, on the same "
    "examples; follows_meaning: accuracy if a predicted word is taken by its meaning among the own "
    "words, where they are the own ones in another order. loyalty_label, loyalty_random: share of "
    "predictions as in the untouched run while label words, or random tokens, are isolated in the "
    "first layers. s_wp_early: share of S_wp among the three flows in the first third of the "
    "layers; s_pq_late: of S_pq in the last third. results/tables/label_words.csv has every layer, "
    "and the difference of the two loyalties."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        label_words = read_tables(snakemake.input.label_words, LABEL_WORDS)
        write_csv(snakemake.output.csv, label_words)
        write_readable(
            dict(snakemake.output.items()),
            "Own and other label words",
            NOTE,
            tabulate_label_words(label_words),
        )
