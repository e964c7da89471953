# Predictions with edges of attention cut, by class; run only if knockout.classes is not empty.


use rule measure as measure_knockout with:
    output:
        measured("knockout"),
    log:
        f"logs/measure_knockout/{PART}.log",
    params:
        **analysis("knockout"),
        spec=section("knockout"),
        scoring=scoring_spec,
    message:
        "Cutting edges of attention of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
