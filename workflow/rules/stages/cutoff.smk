# Predictions without the demonstrations from some layer on; nothing of this is run unless cutoff.sees
# lists something.


rule measure_cutoff:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("cutoff"),
    log:
        f"logs/measure_cutoff/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_cutoff"),
        spec=cutoff_spec,
        scoring=scoring_spec,
    message:
        "Leaving out demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_cutoff.py"
