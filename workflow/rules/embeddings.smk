# The texts of each task as vectors of a sentence encoder; no language model is needed.


rule embed_texts:
    input:
        texts="results/texts/{task}.parquet",
        encoder=encoder_files,
        code=code_of("embed_texts"),
    output:
        "results/embeddings/{task}.parquet",
    log:
        "logs/embed_texts/{task}.log",
    benchmark:
        "results/benchmarks/embed_texts/{task}.tsv"
    # Beside the conversion of weights, before jobs that run a model.
    priority: 5
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=2000,
    params:
        spec=encoder_spec,
    message:
        "Embedding the texts of {wildcards.task}"
    script:
        "../scripts/embed_texts.py"
