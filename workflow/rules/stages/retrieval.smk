# Predictions with chosen training texts as demonstrations ([K] §4.2).


use rule measure as measure_retrieval with:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        embeddings="results/embeddings/{task}.parquet",
        other_texts=of_other_task("texts"),
        other_embeddings=of_other_task("embeddings"),
        tokenizer=tokenizer_of,
        predictions="results/predictions/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        samples=measured("retrieval", "samples"),
        prompts=measured("retrieval", "prompts"),
        predictions=measured("retrieval", "predictions"),
    log:
        f"logs/measure_retrieval/{PART}.log",
    params:
        **script_of("measure_retrieval"),
        spec=retrieval_spec,
        task=prompts_spec,
        scoring=scoring_spec,
    message:
        "Predicting with chosen demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
