# Ridge probes of keys and values around label words ([K] §5.4).


use rule prepare as measure_probes with:
    input:
        states="results/kernel/{model}/{task}/{seed}/states.parquet",
    output:
        "results/probes/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_probes/{model}/{task}/{seed}.log",
    params:
        **analysis("probes"),
        spec=config["probes"],
    message:
        "Probing keys and values around label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
