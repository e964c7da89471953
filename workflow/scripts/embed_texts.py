"""Embed the texts of one task with a sentence encoder."""

import torch

from anchorflow.devices import choose_device
from anchorflow.embeddings import embed_texts, encoder_directory, encoder_identity, open_encoder
from anchorflow.logs import job_log
from anchorflow.tables import EMBEDDINGS, TEXTS, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        path = snakemake.params.spec["path"]
        torch.set_num_threads(snakemake.threads)
        folder = encoder_directory(path)
        texts = read_table(snakemake.input.texts, TEXTS)
        encoder = open_encoder(folder, choose_device(snakemake.config["compute"]["device"]))
        settings = {"encoder": encoder_identity(path, folder)}
        write_frame(snakemake.output[0], EMBEDDINGS, embed_texts(texts, encoder), settings)
