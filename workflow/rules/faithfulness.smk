# Saliency and attention of edges that are cut; run only if faithfulness.classes is not empty.


use rule measure as measure_faithfulness with:
    output:
        measured("faithfulness"),
    log:
        f"logs/measure_faithfulness/{PART}.log",
    params:
        **analysis("faithfulness"),
        spec=lambda wildcards: {
            **section("faithfulness")(wildcards),
            "draws": config["knockout"]["draws"],
        },
    message:
        "Measuring saliency of cut edges of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
