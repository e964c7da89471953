# Kernel regression and exact Bayesian inference in random worlds, without a model ([K] §4.1, Table 3).


use rule prepare as measure_theory with:
    output:
        "results/theory/worlds.parquet",
    log:
        "logs/measure_theory/worlds.log",
    priority: PRIORITIES["measure_theory"]
    resources:
        mem_mb=memory_of_worlds,
    params:
        **analysis("theory"),
        spec=config["theory"],
    message:
        "Comparing kernel regression with Bayesian inference in random worlds"
