"""How long jobs and whole runs are said to take, and that they run as many tokens as they say."""

import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.config.configuration import complete_configuration
from anchorflow.config.stages import STAGES
from anchorflow.model.cost import estimate_of_run, log_run, whole_run
from anchorflow.model.devices import Rates
from anchorflow.model.layers import decoder_layers
from anchorflow.model.size import PER_JOB, PER_LAYER, SHARE, Cost, Prompts, seconds
from checkout import ROOT
from sizes import SIZE
from tiny_cells import tiny_runs
from tiny_models import PREFIX, tiny_model

SHALLOW = {"isolation": {"layers": [1], "draws": 1}, "compute": {"device": "cpu"}}


def configuration(**changes: Any) -> dict[str, Any]:
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
    config |= changes
    complete_configuration(config, ROOT / "workflow/schemas/config.schema.yaml")
    return config


def test_seconds_are_those_of_operations_of_steps_and_of_starting() -> None:
    # 50 tokens are multiplied with 1000 weights; 3 steps read them, 4 bytes each, in 2 layers.
    computing, step = 2 * 1000 * 50 / (SHARE * 1e6), 4 * 1000 / 1e5 + 2 * PER_LAYER
    expected = PER_JOB + computing + 3 * step
    assert seconds(Cost(40, 10, steps=3), SIZE, Rates(1e6, 1e5)) == pytest.approx(expected)


class Tokens:
    """How many tokens run through the layers of a model, as shares of all of them."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.forward = self.backward = 0.0
        layers = decoder_layers(model)
        self._share = 1 / len(layers)
        for layer in layers:  # within them, since layers that are skipped are called all the same
            layer.mlp.register_forward_hook(self._run)
            layer.mlp.register_full_backward_hook(self._run_back)

    def _run(self, _: nn.Module, given: tuple[Tensor], __: Tensor) -> None:
        self.forward += self._share * given[0].shape[:2].numel()

    def _run_back(self, _: nn.Module, __: Any, given: tuple[Tensor]) -> None:
        self.backward += self._share * given[0].shape[:2].numel()


COUNTED = tiny_runs("COUNTED")


@pytest.mark.parametrize("stage", COUNTED)
def test_an_analysis_runs_as_many_tokens_as_it_says(stage: str) -> None:
    model = tiny_model("llama")
    module, spec, run = COUNTED[stage]
    planned = module.cost(Prompts(4, PREFIX, 10, 3), spec, 3)
    counted = Tokens(model)
    run(model)
    ran = counted.forward + counted.backward
    assert planned.forward + planned.backward == pytest.approx(ran, rel=0.25)


def jobs_of(**changes: Any) -> dict[str, int]:
    """The number of jobs of each analysis in a run with one model."""
    run = whole_run(configuration(**changes), "gemma-3-270m", 18)
    return {stage: len(jobs) for stage, jobs in run.items()}


def test_a_whole_run_has_the_jobs_that_snakemake_plans() -> None:
    jobs = jobs_of()
    # 3 tasks and 4 seeds, as nulls have, of which there are two for attention.
    expected = {
        "attention": 3 * (4 + 4 + 4),
        **dict.fromkeys(("flow", "isolation", "kernel", "compression"), 3 * (4 + 4)),
        "transplant": 3 * (3 + 3),
        **dict.fromkeys(("flow_page", "timing"), 3),
        **dict.fromkeys(("heads", "ablation", "reweighting", "confusion"), 4 * 3),
    }
    assert jobs == expected
    assert set(jobs) <= set(STAGES)


def test_shards_are_jobs_and_what_is_not_asked_for_has_none() -> None:
    sharded = {"examples_per_shard": 10}  # 10 and 2 of 12 texts
    jobs = jobs_of(compute=sharded, flow_page={"examples": 0})
    assert "flow_page" not in jobs
    assert (jobs["attention"], jobs["flow"], jobs["kernel"]) == (2 * 36, 2 * 24, 2 * 24)
    assert (jobs["confusion"], jobs["reweighting"], jobs["timing"]) == (12, 12, 3)


@pytest.fixture
def resolved(tmp_path: Path) -> Path:
    """A folder with the configuration of a tiny model."""
    tiny_model("llama").config.save_pretrained(tmp_path)
    return tmp_path


def test_a_run_is_told_of_in_one_sentence_by_a_process_of_its_own(
    resolved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        log_run(configuration(**SHALLOW), "gemma-3-270m", resolved)
    (said,) = caplog.messages
    assert said.startswith("gemma-3-270m: 204 jobs take about ")
    assert " on this machine, one after the other, with 12 texts of about 32 tokens" in said


def test_hours_are_told_without_exponents_at_the_rates_of_as_many_threads_as_jobs_have(
    resolved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(Rates, "measured", lambda *_: Rates(1e2, 1e9))
    shallow = SHALLOW | {"compute": {"threads": 3, "device": "cpu"}}
    said = estimate_of_run(configuration(**shallow), "gemma-3-270m", resolved)
    assert threads == [3]
    assert " hours on this machine" in said
    assert "e+" not in said


def test_a_run_that_can_not_be_estimated_goes_on(
    resolved: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> Rates:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    def killed(*_: Any) -> Rates:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    for measured, reason in ((full, "CUDA out of memory."), (killed, "A process in the process ")):
        monkeypatch.setattr(Rates, "measured", measured)
        with caplog.at_level(logging.INFO):
            log_run(configuration(**SHALLOW), "gemma-3-270m", resolved)
        assert f"how long a run takes can't be estimated here: {reason}" in caplog.messages[-1]
