# The papers' claims over training, for models that are checkpoints of one; {model} is its name.

TRAININGS = trainings(config["models"])
FINAL_FIGURES += expand(
    "results/figures/training/{model}.{kind}", model=TRAININGS, kind=FIGURE_FORMATS
)
FINAL_TABLES += expand("results/summaries/training/{model}.parquet", model=TRAININGS)


def checkpoints(wildcards):
    """The checkpoints of a training; refused if there is none of this name."""
    if wildcards.model not in TRAININGS:
        raise WorkflowError(f"{wildcards.model}: no model has this in checkpoint_of.")
    return checkpoints_of(wildcards.model, TRAININGS[wildcards.model])


use rule prepare as plot_training with:
    input:
        claims=lambda wildcards: [
            f"results/summaries/claims/{model}.parquet"
            for model, _, _ in checkpoints(wildcards)
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
        checkpoints=checkpoints,
    message:
        "Plotting the claims over the training of {wildcards.model}"
