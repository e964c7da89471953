# The papers' claims over training, for models that are checkpoints of one; {model} is its name.

FINAL_FIGURES += expand(
    "results/figures/training/{model}.{kind}",
    model=trainings(config["models"]),
    kind=FIGURE_FORMATS,
)
FINAL_TABLES += expand(
    "results/summaries/training/{model}.parquet", model=trainings(config["models"])
)


use rule prepare as plot_training with:
    input:
        claims=lambda wildcards: [
            f"results/summaries/claims/{model}.parquet"
            for model, _, _ in checkpoints_spec(wildcards)
        ],
    output:
        **{
            kind: f"results/figures/training/{{model}}.{kind}"
            for kind in FIGURE_FORMATS[:-1]
        },
        png=report(
            "results/figures/training/{model}.png",
            caption="../report/training.rst",
            category="1 Claims",
            subcategory="Over training",
            labels={"training": "{model}"},
        ),
        table="results/summaries/training/{model}.parquet",
    log:
        "logs/plot_training/{model}.log",
    group:
        "presenting"
    params:
        **settings_named(("style",), config),
        **script_of("plot_training"),
        checkpoints=checkpoints_spec,
    message:
        "Plotting the claims over the training of {wildcards.model}"
