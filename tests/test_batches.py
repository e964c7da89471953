"""Batches under a token budget, and how a job goes on when memory runs out."""

import gc
import logging
import weakref
from collections.abc import Callable

import polars as pl
import pytest
import torch
from out_of_memory import limit, limit_backward, run_out
from polars.testing import assert_frame_equal
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.attention import measure_attention
from anchorflow.batches import Batch, Budget, batches_of, run_batches
from anchorflow.compression import measure_compression
from anchorflow.diagnosis import measure_diagnosis
from anchorflow.errors import InputError
from anchorflow.isolation import measure_isolation, settings_of
from anchorflow.retrieval import measure_retrieval
from anchorflow.reweighting import measure_reweighting
from anchorflow.saliency import measure_saliency
from tiny_models import shared_prompts, tiny_model

CPU = torch.device("cpu")
LENGTHS = [5, 17, 9, 30, 12, 8]


def python_runs_out() -> None:
    bytearray(2**62)


def gpu_runs_out() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


def library_runs_out() -> None:
    raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


class Limited:
    """Counts tokens, and runs out of memory above so many at once."""

    def __init__(self, tokens: int, fail: Callable[[], None] = run_out) -> None:
        self.tokens, self.fail = tokens, fail
        self.tried: list[int] = []

    def __call__(self, batch: Batch) -> list[int]:
        self.tried.append(batch.input_ids.numel())
        if self.tried[-1] > self.tokens:
            self.fail()
        return batch.lengths.tolist()


@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_with_enough_memory_batches_are_those_of_the_budget(budget: int) -> None:
    table, limited = shared_prompts(LENGTHS), Limited(10_000)
    run = list(run_batches(table, Budget(budget), CPU, limited, 30, 7))
    plain = list(batches_of(table, budget, CPU, 30, 7))
    assert [batch.examples for batch, _ in run] == [batch.examples for batch in plain]
    assert {batch.first_position for batch, _ in run} == {7}
    assert [lengths for _, lengths in run] == [batch.lengths.tolist() for batch in plain]


@pytest.mark.parametrize("fail", [run_out, python_runs_out, gpu_runs_out, library_runs_out])
def test_out_of_memory_halves_the_budget_and_measures_every_example_once(
    fail: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    budget, limited = Budget(10_000), Limited(60, fail)
    with caplog.at_level(logging.WARNING):
        run = list(run_batches(shared_prompts(LENGTHS), budget, CPU, limited, 30))
    examples = [example for batch, _ in run for example in batch.examples]
    assert examples == [3, 1, 4, 2, 5, 0]  # the longest first
    assert [length for _, lengths in run for length in lengths] == [30, 17, 12, 9, 8, 5]
    assert limited.tried == [6 * 30, 3 * 30, 30, 2 * 17, 3 * 9]
    assert budget.tokens == 3 * 30 // 2
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "6 prompts of up to 30 tokens" in told[0]
    assert "going on with batches of 90 tokens (compute.batch_tokens)" in told[0]


def test_loops_that_share_a_budget_run_out_of_memory_once() -> None:
    budget, limited = Budget(10_000), Limited(60)
    for _ in range(2):
        list(run_batches(shared_prompts(LENGTHS), budget, CPU, limited, 30))
    assert sum(tokens > 60 for tokens in limited.tried) == 2


def test_a_prompt_that_does_not_fit_alone_is_named() -> None:
    run = run_batches(shared_prompts(LENGTHS), Budget(100), CPU, Limited(29), 30)
    with pytest.raises(InputError, match=r"example 3: its prompt of 60 tokens does not fit into"):
        list(run)


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    def defect() -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        list(run_batches(shared_prompts([5, 6]), Budget(100), CPU, Limited(1, defect)))


def test_what_a_batch_has_computed_is_freed_before_the_next_try() -> None:
    computed: list[weakref.ref[Tensor]] = []

    def measure(batch: Batch) -> int:
        assert [each() for each in computed] == [None] * len(computed)
        hidden = torch.zeros(batch.size)
        computed.append(weakref.ref(hidden))
        if batch.size > 1:
            run_out()
        return batch.size

    gc.disable()  # so that it is not freed by chance
    try:
        run = list(run_batches(shared_prompts([5, 6, 7, 8]), Budget(1000), CPU, measure))
    finally:
        gc.enable()
    assert [size for _, size in run] == [1, 1, 1, 1]


class Decoder:
    """The one method of a tokenizer that is needed here."""

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        return str(tokens)


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
    "diagnosis": lambda model, table: measure_diagnosis(model, table, 1000),
    "compression": lambda model, table: measure_compression(
        model, called(table, "fixed", "training"), torch.zeros(3, 4, 3), KEPT, FIT, 1000
    ),
    "reweighting": lambda model, table: (
        measure_reweighting(
            model,
            called(table, "fixed", "training", "content_free", "many"),
            [" a", " b", " c"],
            FIT,
            1000,
        ).predictions
    ),
    "retrieval": lambda model, table: measure_retrieval(
        model, called(table, "nearest"), PREDICTED, DESCRIBED, 1000
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_runs_out_of_memory_gives_the_same_numbers(stage: str) -> None:
    table, model = shared_prompts(LENGTHS), tiny_model("llama")
    plain = STAGES[stage](model, table)
    failed = limit(model, 60)
    ours = STAGES[stage](model, table)
    assert failed
    assert plain.height > 0
    assert_frame_equal(ours, plain, rel_tol=1e-5, abs_tol=1e-6)


@pytest.mark.parametrize("stage", ["saliency", "shared saliency"])
def test_a_backward_pass_that_runs_out_of_memory_reports_nothing_twice(stage: str) -> None:
    table, model = shared_prompts(LENGTHS), tiny_model("llama")
    plain = STAGES[stage](model, table)
    failed = limit_backward(model, 60)
    ours = STAGES[stage](model, table)
    assert failed
    assert_frame_equal(ours, plain, rel_tol=1e-5, abs_tol=1e-6)
