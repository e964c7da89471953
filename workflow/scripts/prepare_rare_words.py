"""Choose rarer words to replace the content words of one task's test texts."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

import torch

from anchorflow.analyses.perturbations.rare_words import choose_rare_words
from anchorflow.analyses.perturbations.schema import RARE_WORDS
from anchorflow.model.devices import choose_device
from anchorflow.prepare.embeddings import encoder_directory, encoder_identity, open_encoder
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        path = snakemake.params.spec["path"]
        torch.set_num_threads(snakemake.threads)
        folder = encoder_directory(path)
        texts = read_table(snakemake.input.texts, TEXTS)
        encoder = open_encoder(folder, choose_device(snakemake.config["compute"]["device"]))
        settings = {"encoder": encoder_identity(path, folder)}
        write_frame(snakemake.output[0], RARE_WORDS, choose_rare_words(texts, encoder), settings)
