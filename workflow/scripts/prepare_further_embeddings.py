"""Embed the texts of one task with further sentence encoders."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

import torch

from anchorflow.model.devices import choose_device
from anchorflow.prepare.further_embeddings import embed_with_further
from anchorflow.schemas.embeddings import FURTHER_EMBEDDINGS
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        torch.set_num_threads(snakemake.threads)
        texts = read_table(snakemake.input.texts, TEXTS)
        device = choose_device(snakemake.config["compute"]["device"])
        embedded, encoders = embed_with_further(texts, snakemake.params.spec["paths"], device)
        write_frame(snakemake.output[0], FURTHER_EMBEDDINGS, embedded, {"encoders": encoders})
