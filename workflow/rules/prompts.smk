# Prompts as token ids with every position, per model, task and seed.


rule build_prompts:
    input:
        samples=samples_of,
        tokenizer="results/tokenizers/{model}",
        code=code_of("build_prompts"),
    output:
        "results/prompts/{model}/{task}/{seed}.parquet",
    log:
        "logs/build_prompts/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/build_prompts/{model}/{task}/{seed}.tsv"
    priority: 10
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        spec=prompts_spec,
    message:
        "Building the prompts of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/build_prompts.py"
