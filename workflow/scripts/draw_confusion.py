"""Draw which labels one model confuses, as measured and as their keys foretell it."""

from anchorflow.confusion_figure import draw_confusion
from anchorflow.logs import job_log
from anchorflow.tables import CONFUSION, read_settings, read_table

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.input.confusion
        draw_confusion(
            read_table(path, CONFUSION),
            snakemake.params.labels,
            snakemake.params.style,
            read_settings(path)["confidence"],
            dict(snakemake.output.items()),
        )
