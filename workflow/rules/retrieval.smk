# Predictions with chosen training texts as demonstrations ([K] §4.2).


# How demonstrations are chosen and, if some come from another task, from which one.
retrieval_spec = lambda wildcards: configuration.retrieval_of(
    wildcards.task, int(wildcards.seed), config
)

# The file of a stage of the other task, if there is one.
of_other_task = lambda stage: lambda wildcards: (
    f"results/{stage}/{retrieval_spec(wildcards)['other']['task']}.parquet"
    if "other" in retrieval_spec(wildcards)
    else []
)


use rule measure as measure_retrieval with:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        embeddings="results/embeddings/{task}.parquet",
        other_texts=of_other_task("texts"),
        other_embeddings=of_other_task("embeddings"),
        tokenizer=tokenizer_of,
        predictions="results/attention/{model}/{task}/{seed}/predictions.parquet",
        model="results/models/{model}",
    output:
        samples=measured("retrieval", "samples"),
        prompts=measured("retrieval", "prompts"),
        predictions=measured("retrieval", "predictions"),
    log:
        f"logs/measure_retrieval/{PART}.log",
    params:
        **analysis("retrieval"),
        spec=lambda wildcards: {
            **retrieval_spec(wildcards),
            **texts_of("retrieval", config),
        },
        task=prompts_spec,
        scoring=scoring_spec,
    message:
        "Predicting with chosen demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
