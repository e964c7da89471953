# The papers' claims on several models, side by side and over relative depth.

if len(config["models"]) > 1:
    FIGURES.append("results/figures/comparison")


rule draw_comparison:
    input:
        claims=of_models("claims"),
        flow=of_models("flow"),
        loyalty=of_models("loyalty"),
        deep=of_models("deep"),
        confusion=of_models("confusion"),
        heads=of_models("heads"),
        code=code_of("draw_comparison"),
    output:
        report(
            directory("results/figures/comparison"),
            patterns=["{claim}.png"],
            caption="../report/comparison.rst",
            category=CLAIMS,
            subcategory="Models compared",
            labels={"claim": "{claim}"},
        ),
    log:
        "logs/draw_comparison.log",
    benchmark:
        "results/benchmarks/draw_comparison.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
        variant=config["isolation"]["variants"][0],
    message:
        "Drawing the claims on all models"
    script:
        "../scripts/draw_comparison.py"
