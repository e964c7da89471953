# Sentence embeddings of the texts of each task, for which no language model is needed; those of
# further encoders are for kernel regression alone.

if config["encoder"]["further"]:
    TABLES += expand("results/further_embeddings/{task}.parquet", task=config["tasks"])


use rule encode as prepare_embeddings with:
    input:
        texts="results/texts/{task}.parquet",
        encoder=encoder_files,
    output:
        "results/embeddings/{task}.parquet",
    log:
        "logs/prepare_embeddings/{task}.log",
    priority: PRIORITIES["prepare_embeddings"]
    params:
        **script_of("prepare_embeddings"),
        spec=encoder_spec,
    message:
        "Embedding the texts of {wildcards.task}"


use rule encode as prepare_further_embeddings with:
    input:
        texts="results/texts/{task}.parquet",
        encoder=further_encoder_files,
    output:
        "results/further_embeddings/{task}.parquet",
    log:
        "logs/prepare_further_embeddings/{task}.log",
    priority: PRIORITIES["prepare_further_embeddings"]
    params:
        **script_of("prepare_further_embeddings"),
        spec=further_encoders_spec,
    message:
        "Embedding the texts of {wildcards.task} with further encoders"
