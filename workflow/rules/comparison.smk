# The papers' claims for several models, compared and over relative depth.

if len(config["models"]) > 1:
    FINAL_FIGURES.append("results/figures/comparison")

COMPARED = ("claims", "flow", "isolation", "attention", "confusion", "kernel")


use rule prepare as plot_comparison with:
    input:
        **{name: files_of(f"summaries/{name}", all_models=True) for name in COMPARED},
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
    params:
        **settings_named(("style", "comparison"), config),
        **script_of("plot_comparison", *claim_modules()),
    message:
        "Plotting the claims on all models"
