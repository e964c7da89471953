# Predictions with edges of attention cut by class; nothing of this is run unless knockout.classes lists
# some.


use rule measure as measure_knockout with:
    output:
        measured("knockout"),
    log:
        f"logs/measure_knockout/{PART}.log",
    params:
        **script_of("measure_knockout"),
        spec=knockout_spec,
        scoring=scoring_spec,
    message:
        "Cutting edges of attention of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
