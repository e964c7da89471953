# Kernel regression and exact Bayesian inference in random worlds, without any model ([K] §4.1, Table 3).


def theory_numbers():
    """Numbers in the operators of one world's inputs if all are distinct."""
    spec = config["theory"]
    inputs = spec["prompts"] * (max(spec["demonstrations"]) + 1) + spec["samples"]
    return spec["states"] ** 2 * inputs


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
        mem_mb=500 + 32 * theory_numbers() // 10**6,  # four copies
    params:
        **code_of("measure_theory"),
        spec=config["theory"],
    message:
        "Comparing kernel regression with Bayesian inference in random worlds"
    script:
        "../../scripts/measure_theory.py"
