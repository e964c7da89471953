# Prompts as token ids with the positions of their parts, per model, task, and seed.


rule prepare_prompts:
    input:
        samples=samples_of,
        tokenizer=tokenizer_of,
    output:
        "results/prompts/{model}/{task}/{seed}.parquet",
    log:
        "logs/prepare_prompts/{model}/{task}/{seed}.log",
    priority: 10
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    params:
        **code_of("prepare_prompts"),
        spec=prompts_spec,
    message:
        "Building the prompts of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    script:
        "../../scripts/prepare_prompts.py"
