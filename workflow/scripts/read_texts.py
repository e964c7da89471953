"""Read and check the labelled texts of one task."""

from anchorflow.logs import job_log
from anchorflow.tables import TEXTS, write_frame
from anchorflow.texts import SPLITS, download_texts, read_texts

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        name, task = snakemake.wildcards.task, snakemake.params.spec
        files = download_texts(name, task) if task["source"] == "hub" else snakemake.input
        settings = {**task, "files": {split: str(files[split]) for split in SPLITS}}
        write_frame(snakemake.output[0], TEXTS, read_texts(name, task, files), settings)
