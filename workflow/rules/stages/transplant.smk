# Predictions with vectors of some tokens put from one prompt into another; nothing of this is run unless
# transplant.places lists some.


rule measure_transplant:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("transplant"),
    log:
        f"logs/measure_transplant/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_transplant"),
        spec=transplant_spec,
        scoring=scoring_spec,
    message:
        "Transplanting between prompts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_transplant.py"
