# Predictions while label words, or random positions, may not see what precedes them ([A] §2.2).


rule measure_isolation:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
        code=code_of("measure_isolation"),
    output:
        measured("isolation"),
    log:
        f"logs/measure_isolation/{PART}.log",
    benchmark:
        f"results/benchmarks/measure_isolation/{PART}.tsv"
    priority: 3  # the longest jobs first, so that no core waits for one at the end
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=config["isolation"],
    message:
        "Isolating label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../scripts/measure_isolation.py"
