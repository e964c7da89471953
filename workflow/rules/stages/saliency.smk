# Saliency of attention, layer by layer: the information flows S_wp, S_pq, and S_ww ([A] §2.1).


use rule measure as measure_saliency with:
    output:
        measured("saliency"),
    log:
        f"logs/measure_saliency/{PART}.log",
    priority: PRIORITIES["measure_saliency"]
    params:
        **script_of("measure_saliency"),
        spec=config["saliency"],
    message:
        "Measuring saliency of attention for {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
