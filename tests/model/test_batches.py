"""Batches under a token budget, and how a job goes on when memory runs out."""

import gc
import logging
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from anchorflow.config.errors import InputError
from anchorflow.model.batches import Batch, Budget, LabelWords, batches_of, run_batches
from out_of_memory import run_out
from tiny_models import shared_prompts

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


def test_words_of_unequal_length_are_padded_and_padding_has_no_attention() -> None:
    words = LabelWords.between(torch.tensor([[1, 5], [2, 4]]), torch.tensor([[2, 8], [4, 5]]))
    assert words.at.tolist() == [[[1, 1, 1], [5, 6, 7]], [[2, 3, 3], [4, 4, 4]]]
    kept, gone = True, False
    assert words.real.tolist() == [
        [[kept, gone, gone], [kept, kept, kept]],
        [[kept, kept, gone], [kept, gone, gone]],
    ]
    rows = torch.arange(1.0, 21).reshape(1, 2, 1, 10)  # 1 to 10, and 11 to 20
    assert words.each(rows)[0, :, 0].tolist() == [[[2, 0, 0], [6, 7, 8]], [[13, 14, 0], [15, 0, 0]]]
    assert words.total(rows)[0, :, 0].tolist() == [[2, 21], [27, 15]]
    none = torch.zeros(2, 0, dtype=torch.long)
    assert LabelWords.between(none, none).total(rows).shape == (1, 2, 1, 0)


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
    told = caplog.messages
    assert len(told) == 2
    assert "6 prompts of up to 30 tokens" in told[0]
    assert "continuing with batches of 90 tokens (compute.batch_tokens)" in told[0]


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
