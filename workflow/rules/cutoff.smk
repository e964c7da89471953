# Predictions with the demonstrations hidden from a layer on; run only if cutoff.sees is not empty.


use rule measure as measure_cutoff with:
    output:
        measured("cutoff"),
    log:
        f"logs/measure_cutoff/{PART}.log",
    params:
        **analysis("cutoff"),
        spec=section("cutoff"),
        scoring=scoring_spec,
    message:
        "Hiding the demonstrations of {wildcards.task} from each layer on in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
