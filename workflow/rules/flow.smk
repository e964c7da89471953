# Saliency of attention, layer by layer: the information flows S_wp, S_pq, and S_ww ([A] §2.1).


use rule measure as measure_flow with:
    output:
        measured("flow"),
    log:
        f"logs/measure_flow/{PART}.log",
    priority: PRIORITIES["measure_flow"]
    params:
        **analysis("flow"),
        spec=section("flow"),
    message:
        "Measuring saliency of attention for {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
