# What saliency and attention say of edges that are cut; nothing of this is run unless
# faithfulness.classes lists some.


rule measure_faithfulness:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        measured("faithfulness"),
    log:
        f"logs/measure_faithfulness/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_faithfulness"),
        spec=faithfulness_spec,
    message:
        "Measuring saliency of cut edges of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_faithfulness.py"
