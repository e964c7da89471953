"""Read and check the labeled texts of one task."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.prepare.texts import read_hub_texts, read_texts
from anchorflow.schemas.texts import SPLITS, TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import write_frame

if __name__ == "__main__":
    with job(snakemake):
        name, task = snakemake.wildcards.task, snakemake.params.spec
        if task["source"] == "hub":
            texts, commit = read_hub_texts(name, task)
            settings = {**task, "commit": commit}
        else:
            files = {split: snakemake.input[split] for split in SPLITS}
            texts = read_texts(name, task, files)
            settings = {**task, "files": files}
        write_frame(snakemake.output[0], TEXTS, texts, settings)
