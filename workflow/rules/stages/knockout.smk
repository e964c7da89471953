# Predictions with edges of attention cut by class; nothing of this is run unless knockout.classes lists
# some.


rule measure_knockout:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("knockout"),
    log:
        f"logs/measure_knockout/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_knockout"),
        spec=knockout_spec,
        scoring=scoring_spec,
    message:
        "Cutting edges of attention of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_knockout.py"
