"""Write the scores of a model's heads as JSON, for other tools."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from pathlib import Path

from anchorflow.analyses.heads import HEADS_SUMMARY
from anchorflow.analyses.heads.atlas import atlas, write_atlas
from anchorflow.store.checksums import read_json
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table

if __name__ == "__main__":
    with job(snakemake):
        folder = Path(snakemake.input.model)
        card = read_json(folder / "model.json", remedy=f"delete {folder} and run again")
        summary = read_table(snakemake.input.summary, HEADS_SUMMARY)
        prompts, confidence = snakemake.params.prompts, snakemake.params.confidence
        write_atlas(snakemake.output[0], atlas(summary, card, prompts, confidence))
