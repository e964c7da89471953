# Saliency and attention of edges that are cut; run only if faithfulness.classes is not empty.


# Which of the edges that are cut are compared.
CUT = {
    key: config["knockout"][key]
    for key in ("draws", "examples")
    if key in config["knockout"]
}


use rule measure as measure_faithfulness with:
    output:
        measured("faithfulness"),
    log:
        f"logs/measure_faithfulness/{PART}.log",
    params:
        **analysis("faithfulness"),
        spec=lambda wildcards: {
            **section_if("faithfulness.classes")(wildcards),
            **CUT,
        },
    message:
        "Measuring saliency of cut edges of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
