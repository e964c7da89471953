# Predictions without the demonstrations from some layer on; nothing of this is run unless cutoff.sees
# lists something.


use rule measure as measure_cutoff with:
    output:
        measured("cutoff"),
    log:
        f"logs/measure_cutoff/{PART}.log",
    params:
        **script_of("measure_cutoff"),
        spec=cutoff_spec,
        scoring=scoring_spec,
    message:
        "Leaving out demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
