"""Every stage that runs the model gives the same numbers where memory runs out."""

from collections.abc import Callable

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from transformers import PreTrainedModel

from anchorflow.measure.attention import measure_attention
from anchorflow.measure.compression import FULL, measure_compression
from anchorflow.measure.cutoff import measure_cutoff
from anchorflow.measure.cutoff import settings_of as cutoffs_of
from anchorflow.measure.diagnosis import measure_diagnosis
from anchorflow.measure.faithfulness import measure_faithfulness
from anchorflow.measure.isolation import measure_isolation, settings_of
from anchorflow.measure.knockout import measure_knockout
from anchorflow.measure.knockout import settings_of as cuts_of
from anchorflow.measure.perturbations import measure_perturbations
from anchorflow.measure.retrieval import measure_retrieval
from anchorflow.measure.reweighting import measure_reweighting
from anchorflow.measure.saliency import measure_saliency
from anchorflow.measure.transplant import measure_transplant
from anchorflow.measure.transplant import settings_of as transplants_of
from out_of_memory import limit, limit_backward, limit_head
from stub_tokenizers import Decoder
from tiny_models import shared_prompts, tiny_model

LENGTHS = [5, 17, 9, 30, 12, 8]
FIT = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0}
KEPT = {"methods": ["hidden_anchor", "recent"], "shares": [], "draws": 1, "positions": "original"}
PREDICTED = pl.DataFrame({"example": [0], "label": [1], "prediction": [1]}).with_columns(
    probabilities=pl.lit([0.2, 0.5, 0.3])
)
DESCRIBED = pl.DataFrame({"choice": ["random"], "example": [0]}).with_columns(
    similarity=pl.lit(0.5), same_label=pl.lit(0.5)
)

Stage = Callable[[PreTrainedModel, pl.DataFrame], pl.DataFrame]


def called(table: pl.DataFrame, *kinds: str) -> pl.DataFrame:
    """The same prompts under other protocols."""
    return pl.concat([table.with_columns(demonstrations=pl.lit(kind)) for kind in kinds])


STAGES: dict[str, Stage] = {
    "attention": lambda model, table: measure_attention(model, Decoder(), table, 1000)[0],
    "predictions": lambda model, table: measure_attention(model, Decoder(), table, 1000)[1],
    "saliency": lambda model, table: measure_saliency(model, called(table, "per_example"), 1000),
    "shared saliency": lambda model, table: measure_saliency(model, table, 1000, "fixed"),
    "isolation": lambda model, table: measure_isolation(
        model, table, settings_of(["mask"], [1], 1, 3, "tiny"), 4, 1000
    ),
    "knockout": lambda model, table: measure_knockout(
        model, table, cuts_of(["label_to_target", "text_to_label"], ["all"], 1, 3), "mask", 4, 1000
    ),
    "faithfulness": lambda model, table: measure_faithfulness(
        model, table, ["label_to_target"], 1, 1, 1000
    ),
    "cutoff": lambda model, table: measure_cutoff(
        model, table, cutoffs_of(["label"], 1, 1, 3), 4, 1000
    ),
    "transplant": lambda model, table: measure_transplant(
        model, table, transplants_of(["label"], ["permuted"], ["keys_values"], 2, 1, 3), 1000
    ),
    "diagnosis": lambda model, table: measure_diagnosis(model, table, 2, 1000),
    "compression": lambda model, table: measure_compression(
        model, table, {FULL: torch.zeros(3, 4, 3)}, KEPT, 1000
    ),
    "reweighting": lambda model, table: (
        measure_reweighting(
            model,
            called(table, "fixed", "training", "calibrated", "domain_calibrated", "many"),
            [" a", " b", " c"],
            {
                **FIT,
                "baselines": [
                    "calibrated",
                    "domain_calibrated",
                    "batch_calibrated",
                    "attention_regression",
                ],
                "further_rates": [0.01],
            },
            1000,
        ).predictions
    ),
    "retrieval": lambda model, table: measure_retrieval(
        model, called(table, "nearest"), PREDICTED, DESCRIBED, 1000
    ),
    "perturbations": lambda model, table: measure_perturbations(
        model, called(table, "typos"), PREDICTED, 1000
    ),
}


@pytest.mark.parametrize(
    ("stage", "limited", "most"),
    [
        *((stage, limit, 60) for stage in STAGES),
        *((stage, limit_backward, 60) for stage in ("saliency", "shared saliency")),
        *(
            (stage, limit_head, 3)
            for stage in ("predictions", "isolation", "knockout", "compression")
        ),
    ],
)
def test_a_stage_that_runs_out_of_memory_gives_the_same_numbers(
    stage: str, limited: Callable[[PreTrainedModel, int], list[int]], most: int
) -> None:
    table, model = shared_prompts(LENGTHS), tiny_model("llama")
    plain = STAGES[stage](model, table)
    failed = limited(model, most)
    ours = STAGES[stage](model, table)
    assert failed
    assert plain.height > 0
    assert_frame_equal(ours, plain, rel_tol=1e-5, abs_tol=1e-6)
