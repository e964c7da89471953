# Distances between the keys of label words, which may predict confused labels ([A] §3.3, eq. 11,
# Fig. 6, App. J).


use rule measure as measure_confusion with:
    output:
        "results/confusion/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_confusion/{model}/{task}/{seed}.log",
    params:
        **analysis("confusion"),
        spec=section("confusion"),
    message:
        "Measuring distances between the keys of label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
