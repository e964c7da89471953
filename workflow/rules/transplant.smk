# Predictions with activations of some tokens transplanted from another prompt; run only if
# transplant.places is not empty.


use rule measure as measure_transplant with:
    output:
        measured("transplant"),
    log:
        f"logs/measure_transplant/{PART}.log",
    params:
        **analysis("transplant"),
        spec=section("transplant"),
        scoring=scoring_spec,
    message:
        "Transplanting activations between prompts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
