# Prompts as token ids with every position, per model, task and seed.


def prompts_spec(wildcards):
    task = task_settings(wildcards)
    return {"template": task["template"], "labels": task["labels"]}


rule build_prompts:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        tokenizer="results/tokenizers/{model}",
        code=code_of("build_prompts"),
    output:
        "results/prompts/{model}/{task}/{seed}.parquet",
    log:
        "logs/build_prompts/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/build_prompts/{model}/{task}/{seed}.tsv"
    priority: 10
    threads: 1
    params:
        spec=prompts_spec,
    message:
        "Building the prompts of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/build_prompts.py"
