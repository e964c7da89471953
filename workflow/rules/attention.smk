# Attention from the target position to the demonstrations, and the predictions ([A] §2.3).


use rule measure as measure_attention with:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        attention=measured("attention", "attention"),
        predictions=measured("attention", "predictions"),
    log:
        f"logs/measure_attention/{PART}.log",
    params:
        **analysis("attention"),
        scoring=scoring_spec,
    message:
        "Measuring attention to the demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
