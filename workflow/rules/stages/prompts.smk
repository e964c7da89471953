# Prompts as token ids with the positions of their parts, per model, task, and seed.


use rule prepare as prepare_prompts with:
    input:
        samples=samples_of,
        tokenizer=tokenizer_of,
    output:
        "results/prompts/{model}/{task}/{seed}.parquet",
    log:
        "logs/prepare_prompts/{model}/{task}/{seed}.log",
    priority: PRIORITIES["prepare_prompts"]
    params:
        **script_of("prepare_prompts"),
        spec=prompts_spec,
    message:
        "Building the prompts of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
