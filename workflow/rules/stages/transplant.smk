# Predictions with vectors of some tokens put from one prompt into another; nothing of this is run unless
# transplant.places lists some.


use rule measure as measure_transplant with:
    output:
        measured("transplant"),
    log:
        f"logs/measure_transplant/{PART}.log",
    params:
        **script_of("measure_transplant"),
        spec=transplant_spec,
        scoring=scoring_spec,
    message:
        "Transplanting between prompts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
