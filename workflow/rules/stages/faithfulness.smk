# What saliency and attention say of edges that are cut; nothing of this is run unless
# faithfulness.classes lists some.


use rule measure as measure_faithfulness with:
    output:
        measured("faithfulness"),
    log:
        f"logs/measure_faithfulness/{PART}.log",
    params:
        **script_of("measure_faithfulness"),
        spec=faithfulness_spec,
    message:
        "Measuring saliency of cut edges of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
