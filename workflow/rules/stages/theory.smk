# Kernel regression and exact Bayesian inference in random worlds, without any model ([K] §4.1, Table 3).


rule measure_theory:
    output:
        "results/theory/worlds.parquet",
    log:
        "logs/measure_theory/worlds.log",
    # Alongside the conversion of weights, before jobs that run a model.
    priority: 5
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of_worlds,
    params:
        **code_of("measure_theory"),
        spec=config["theory"],
    message:
        "Comparing kernel regression with Bayesian inference in random worlds"
    script:
        "../../scripts/measure_theory.py"
