# Predictions with re-weighted attention to label words, and with baselines ([A] §3.1).


# The files of all baselines that jobs load, and of the method of compression on whose positions β is
# also fitted, if any.
PREDICTORS = [
    *entry_modules(
        "analyses/reweighting/baselines", config["reweighting"]["baselines"]
    ),
    *(["analyses/compression/methods/hidden_anchor.py"] if anchors_to_fit() else []),
]


use rule measure as measure_reweighting with:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        beta="results/reweighting/{model}/{task}/{seed}/beta.parquet",
        beta_anchor="results/reweighting/{model}/{task}/{seed}/beta_anchor.parquet",
        descent="results/reweighting/{model}/{task}/{seed}/descent.parquet",
        learning_rates="results/reweighting/{model}/{task}/{seed}/learning_rates.parquet",
        predictions="results/reweighting/{model}/{task}/{seed}/predictions.parquet",
        inputs="results/reweighting/{model}/{task}/{seed}/inputs.parquet",
        prompts="results/reweighting/{model}/{task}/{seed}/prompts.parquet",
        routing="results/reweighting/{model}/{task}/{seed}/routing.parquet",
    log:
        "logs/measure_reweighting/{model}/{task}/{seed}.log",
    priority: PRIORITIES["measure_reweighting"]
    params:
        **analysis("reweighting", *PREDICTORS),
        spec=section("reweighting"),
        anchors=anchors_to_fit(),
        task=lambda wildcards: {
            **prompts_spec(wildcards),
            "many_demonstrations": task_settings(wildcards).get("many_demonstrations"),
        },
        scoring=scoring_spec,
    message:
        "Re-weighting attention to label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
