# A task in one vector. One of its controls is the vector of another task.

# The prompts of the other task, if there is one.
prompts_of_other_task = lambda wildcards: (
    f"results/prompts/{wildcards.model}/{other}/{wildcards.seed}.parquet"
    if (
        other := configuration.another_task(wildcards.task, int(wildcards.seed), config)
    )
    else []
)


use rule measure as measure_vectors with:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        other_prompts=prompts_of_other_task,
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        answers="results/vectors/{model}/{task}/{seed}/answers.parquet",
        similarity="results/vectors/{model}/{task}/{seed}/similarity.parquet",
    log:
        "logs/measure_vectors/{model}/{task}/{seed}.log",
    params:
        **analysis("vectors"),
        spec=section("vectors"),
        task=prompts_spec,
        scoring=scoring_spec,
    message:
        "Putting {wildcards.task} into one vector of {wildcards.model}, seed {wildcards.seed}"
