# Embeddings of the texts of each task by further sentence encoders, for kernel regression alone.

if config["encoder"]["further"]:
    TABLES += expand("results/further_embeddings/{task}.parquet", task=config["tasks"])


rule prepare_further_embeddings:
    input:
        texts="results/texts/{task}.parquet",
        encoder=further_encoder_files,
    output:
        "results/further_embeddings/{task}.parquet",
    log:
        "logs/prepare_further_embeddings/{task}.log",
    # Alongside the conversion of weights, before jobs that run a model.
    priority: 5
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_without_model,
    params:
        **code_of("prepare_further_embeddings"),
        spec=further_encoders_spec,
    message:
        "Embedding the texts of {wildcards.task} with further encoders"
    script:
        "../../scripts/prepare_further_embeddings.py"
