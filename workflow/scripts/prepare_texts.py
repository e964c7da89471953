"""Read and check the labeled texts of one task."""

from anchorflow.prepare.texts import SPLITS, download_texts, read_texts
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import write_frame

if __name__ == "__main__":
    with job(snakemake):
        name, task = snakemake.wildcards.task, snakemake.params.spec
        files = download_texts(name, task) if task["source"] == "hub" else snakemake.input
        settings = {**task, "files": {split: str(files[split]) for split in SPLITS}}
        write_frame(snakemake.output[0], TEXTS, read_texts(name, task, files), settings)
