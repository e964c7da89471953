# What rules have in common. None of these makes a file; other rules in this folder, to which paths are
# relative, inherit from them.


# Without a language model.
rule prepare:
    log:
        "logs/prepare.log",
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        script=no_goal,  # which others replace
    script:
        "../scripts/{params.script}.py"


# With a sentence encoder.
use rule prepare as encode with:
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_without_model,


# With a language model.
use rule prepare as measure with:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    log:
        "logs/measure/{model}/{task}/{seed}.log",
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
