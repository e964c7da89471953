# Predictions for perturbed test texts ([K] Table 1); nothing of this is run unless
# perturbations.kinds lists some.


use rule encode as prepare_rare_words with:
    input:
        texts="results/texts/{task}.parquet",
        encoder=encoder_files,
    output:
        "results/rare_words/{task}.parquet",
    log:
        "logs/prepare_rare_words/{task}.log",
    priority: PRIORITIES["prepare_rare_words"]
    params:
        **script_of("prepare_rare_words"),
        spec=encoder_spec,
    message:
        "Choosing rarer words for the test texts of {wildcards.task}"


use rule prepare as prepare_perturbations with:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        rare_words=rare_words_of,
    output:
        "results/perturbed_texts/{task}/{seed}.parquet",
    log:
        "logs/prepare_perturbations/{task}/{seed}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: PRIORITIES["prepare_perturbations"]
    params:
        **script_of("prepare_perturbations"),
        spec=perturbations_spec,
    message:
        "Perturbing the test texts of {wildcards.task}, seed {wildcards.seed}"


use rule measure as measure_perturbations with:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        texts="results/perturbed_texts/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        predictions="results/predictions/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        prompts=measured("perturbations", "prompts"),
        predictions=measured("perturbations", "predictions"),
    log:
        f"logs/measure_perturbations/{PART}.log",
    params:
        **script_of("measure_perturbations"),
        task=prompts_spec,
        scoring=scoring_spec,
    message:
        "Predicting perturbed texts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
