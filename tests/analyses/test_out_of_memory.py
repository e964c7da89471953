"""Every stage that runs the model gives the same numbers where memory runs out."""

from collections.abc import Callable

import pytest
from polars.testing import assert_frame_equal
from transformers import PreTrainedModel

from out_of_memory import limit, limit_backward, limit_head
from tiny_cells import tiny_runs
from tiny_models import shared_prompts, tiny_model

LENGTHS = [5, 17, 9, 30, 12, 8]
STAGES = tiny_runs("LIMITED")


@pytest.mark.parametrize(
    ("stage", "limited", "most"),
    [
        *((stage, limit, 60) for stage in STAGES),
        *((stage, limit_backward, 60) for stage in tiny_runs("LIMITED_BACKWARD")),
        *((stage, limit_head, 3) for stage in tiny_runs("LIMITED_HEAD")),
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
