# Attention from the target position to the demonstrations, and the predictions ([A] §2.3).


rule measure_attention:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        attention=measured("attention"),
        predictions=measured("predictions"),
    log:
        f"logs/measure_attention/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_attention"),
        scoring=scoring_spec,
    message:
        "Measuring attention to the demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_attention.py"
