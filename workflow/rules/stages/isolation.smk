# Predictions when label words or other tokens cannot attend to earlier tokens ([A] §2.2).


rule measure_isolation:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("isolation"),
    log:
        f"logs/measure_isolation/{PART}.log",
    priority: 3  # the longest jobs first, so that no core idles at the end
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_isolation"),
        spec=config["isolation"],
        scoring=scoring_spec,
    message:
        "Isolating label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_isolation.py"
