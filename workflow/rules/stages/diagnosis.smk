# Distances between the keys of label words, to predict confused labels ([A] §3.3, eq. 11, Fig. 6, App. J).


use rule measure as measure_diagnosis with:
    output:
        "results/diagnosis/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_diagnosis/{model}/{task}/{seed}.log",
    params:
        **script_of("measure_diagnosis"),
        spec=config["diagnosis"],
    message:
        "Measuring key distances of label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
