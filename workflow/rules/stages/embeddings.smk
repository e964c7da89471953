# Sentence embeddings of the texts of each task; no language model is needed.


rule prepare_embeddings:
    input:
        texts="results/texts/{task}.parquet",
        encoder=encoder_files,
    output:
        "results/embeddings/{task}.parquet",
    log:
        "logs/prepare_embeddings/{task}.log",
    # Alongside the conversion of weights, before jobs that run a model.
    priority: 5
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_without_model,
    params:
        **code_of("prepare_embeddings"),
        spec=encoder_spec,
    message:
        "Embedding the texts of {wildcards.task}"
    script:
        "../../scripts/prepare_embeddings.py"
