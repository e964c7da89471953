# Predictions from compressed demonstrations ([A] §3.2, Table 2).


def fitted_weights(wildcards):
    """What re-weighting has fitted; nothing of untrained twins, whose attention is not tuned."""
    if is_untrained(wildcards.model):
        return {}
    folder = f"results/reweighting/{wildcards.model}/{wildcards.task}/{wildcards.seed}"
    return {
        "training": f"{folder}/prompts.parquet",
        "beta": f"{folder}/beta.parquet",
    }


def reweighting_settings(wildcards):
    return None if is_untrained(wildcards.model) else config["reweighting"]


rule measure_compression:
    input:
        unpack(fitted_weights),
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("compression"),
    log:
        f"logs/measure_compression/{PART}.log",
    benchmark:
        f"results/benchmarks/measure_compression/{PART}.tsv"
    priority: 2
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_compression", *method_modules()),
        spec=config["compression"],
        reweighting=reweighting_settings,
        compute=COMPUTE,
    message:
        "Compressing the demonstrations of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_compression.py"
