# The papers' claims for several models, side by side and over relative depth.

if len(config["models"]) > 1:
    FIGURES.append("results/figures/comparison")

COMPARED = ("claims", "flow", "loyalty", "deep", "confusion", "heads")


rule plot_comparison:
    input:
        **{name: files_of(name, all_models=True) for name in COMPARED},
    output:
        report(
            directory("results/figures/comparison"),
            patterns=["{claim}.png"],
            caption="../report/comparison.rst",
            category="1 Claims",
            subcategory="Models compared",
            labels={"claim": "{claim}"},
        ),
    log:
        "logs/plot_comparison.log",
    group:
        "presenting"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        **{part: SLICES[part] for part in ("style", "comparison")},
        **code_of("plot_comparison", *claim_modules()),
    message:
        "Plotting the claims on all models"
    script:
        "../scripts/plot_comparison.py"
