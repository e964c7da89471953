# Perturbed test texts ([K] Table 1); run only if perturbations.kinds is not empty.


# The perturbations with a rate, and the rate's key.
RATES = {"typos": "typo_rate", "case": "case_rate"}


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
        **prepared("analyses/perturbations/rare_words"),
        spec=encoder_spec,
    message:
        "Choosing rarer words for the test texts of {wildcards.task}"


use rule prepare as prepare_perturbations with:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        rare_words=(
            "results/rare_words/{task}.parquet"
            if "rare_words" in config["perturbations"]["kinds"]
            else []
        ),
    output:
        "results/perturbed_texts/{task}/{seed}.parquet",
    log:
        "logs/prepare_perturbations/{task}/{seed}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: PRIORITIES["prepare_perturbations"]
    params:
        **prepared("analyses/perturbations/texts"),
        spec=lambda wildcards: {
            "kinds": asked("perturbations.kinds"),
            **{
                rate: config["perturbations"][rate]
                for kind, rate in RATES.items()
                if kind in config["perturbations"]["kinds"]
            },
        },
    message:
        "Perturbing the test texts of {wildcards.task}, seed {wildcards.seed}"
