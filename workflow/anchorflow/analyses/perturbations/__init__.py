"""Perturbed test texts ([K] Table 1)."""

from anchorflow.config.analysis import KERNEL, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="the accuracy of {} for perturbed test texts",
    category=KERNEL,
    measured=Measured(
        {"prompts": "prompts", "predictions": "perturbations"},
        sharded=True,
        message="Predicting perturbed texts of {task} in {model}",
        reads={
            "samples": "samples",
            "texts": "perturbed_texts",
            "tokenizer": "tokenizers",
            "predictions": "attention/predictions",
            "model": "models",
        },
        scored=True,
        builds_prompts=True,
        without=("kinds", "typo_rate", "case_rate"),  # on which the perturbed texts depend
    ),
    summary=Summary(
        {
            "predictions": "perturbations/predictions",
            "perturbed": "perturbations/prompts",
            "prompts": "prompts",
            "texts": "perturbed_texts",
        }
    ),
    figure=Presented("Perturbed test texts", settings=("labels",)),
    table=Presented("Perturbed test texts (Table 1 of [K])"),
    asked_for="perturbations.kinds",
)
