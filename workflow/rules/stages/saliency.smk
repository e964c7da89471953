# Saliency of attention, layer by layer: the information flows S_wp, S_pq, and S_ww ([A] §2.1).


rule measure_saliency:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("saliency"),
    log:
        f"logs/measure_saliency/{PART}.log",
    priority: saliency_priority
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_saliency"),
        spec=config["saliency"],
    message:
        "Measuring saliency of attention for {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_saliency.py"
