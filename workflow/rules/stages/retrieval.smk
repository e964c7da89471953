# Predictions with the nearest training texts as demonstrations ([K] §4.2).


rule measure_retrieval:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        embeddings="results/embeddings/{task}.parquet",
        tokenizer=tokenizer_of,
        predictions="results/predictions/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        samples=measured("retrieval", "samples"),
        prompts=measured("retrieval", "prompts"),
        predictions=measured("retrieval", "predictions"),
    log:
        f"logs/measure_retrieval/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_retrieval"),
        spec=config["retrieval"],
        task=prompts_spec,
        scoring=scoring_spec,
        compute=COMPUTE,
    message:
        "Predicting with the nearest demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_retrieval.py"
