"""Draw what one model does with other label words."""

from anchorflow.label_words_figure import draw_label_words
from anchorflow.logs import job_log
from anchorflow.tables import LABEL_WORDS, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.label_words
        settings = read_settings(path)
        draw_label_words(
            read_table(path, LABEL_WORDS),
            settings["label_words"]["words"],
            snakemake.params.style,
            settings["confidence"],
            dict(snakemake.output.items()),
        )
