# Predictions when label words or other tokens cannot attend to earlier tokens ([A] §2.2).


use rule measure as measure_isolation with:
    output:
        measured("isolation"),
    log:
        f"logs/measure_isolation/{PART}.log",
    priority: PRIORITIES["measure_isolation"]
    params:
        **analysis("isolation"),
        spec=section("isolation"),
        scoring=scoring_spec,
    message:
        "Isolating label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
