# Predictions from compressed demonstrations ([A] §3.2, Table 2).


# The files of all ways to compress that jobs load.
METHODS = entry_modules(
    "analyses/compression/methods",
    [
        name
        for name in entries("analyses/compression/methods")
        if name in config["compression"]["methods"]
    ],
)


use rule measure as measure_compression with:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        training=unless_untrained(
            "results/reweighting/{model}/{task}/{seed}/prompts.parquet"
        ),
        beta=unless_untrained("results/reweighting/{model}/{task}/{seed}/beta.parquet"),
        beta_anchor=(
            unless_untrained(
                "results/reweighting/{model}/{task}/{seed}/beta_anchor.parquet"
            )
            if anchors_to_fit()
            else []
        ),
        model="results/models/{model}",
        # The words that ask the model to repeat the demonstrations.
        tokenizer=tokenizer_of if any_method_declares("REPEATS") else [],
    output:
        measured("compression"),
    log:
        f"logs/measure_compression/{PART}.log",
    priority: PRIORITIES["measure_compression"]
    params:
        **analysis("compression", *METHODS),
        spec=section("compression"),
        scoring=scoring_spec,
    message:
        "Compressing the demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
