"""What a whole run is planned to take, counted from its configuration."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from anchorflow.config.configuration import complete_configuration
from anchorflow.config.registry import entries
from anchorflow.config.stages import STAGES
from anchorflow.measure.baselines import baseline
from anchorflow.model import run_plan
from anchorflow.model.operations import Rates, Size, operations
from anchorflow.model.run_plan import _INPUTS, log_run, run_in_words, whole_run
from checkout import ROOT
from tiny_models import tiny_model

SIZE = Size(layers=2, weights=1000, head=500, heads=8, hidden=4, itemsize=4)


def configuration(**changes: Any) -> dict[str, Any]:
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
    config |= changes
    complete_configuration(config, ROOT / "workflow/schemas/config.schema.yaml")
    return config


def test_a_whole_run_has_the_jobs_that_snakemake_plans() -> None:
    found = whole_run(configuration(), "gemma-3-270m", 18)
    jobs = {stage: planned.jobs for stage, planned in found.items()}
    # 3 tasks and 4 seeds; 3 other sets of label words; twins for saliency and isolation.
    assert jobs == {
        "attention": 4 * (3 + 3),
        "saliency": 4 * (3 + 3 + 3),
        "isolation": 4 * (3 + 3 + 3),
        "token_saliency": 3,
        "knockout": 4 * 3,
        "transplant": 4 * 3,
        "timing": 3,
        **dict.fromkeys(("reweighting", "compression", "diagnosis", "retrieval", "kernel"), 12),
    }
    assert set(jobs) <= set(STAGES)


def test_shards_are_jobs_and_what_is_not_asked_for_has_none() -> None:
    sharded = {"examples_per_shard": 3}  # 3, 3, and 1 of 7 texts
    config = configuration(compute=sharded, flow_page={"examples": 0})
    found = whole_run(config, "gemma-3-270m", 18)
    assert "token_saliency" not in found
    jobs = {stage: planned.jobs for stage, planned in found.items()}
    assert (jobs["attention"], jobs["saliency"], jobs["kernel"]) == (3 * 24, 3 * 36, 3 * 12)
    assert (jobs["diagnosis"], jobs["reweighting"], jobs["timing"]) == (12, 12, 3)


def test_more_seeds_repeat_all_but_what_is_of_the_first_one() -> None:
    def run(seeds: list[int]) -> dict[str, float]:
        found = whole_run(configuration(seeds=seeds), "gemma-3-270m", 18)
        return {stage: operations(planned.passes, SIZE) for stage, planned in found.items()}

    one, three = run([0]), run([0, 1, 2])
    first = {"timing", "token_saliency"}
    assert three == pytest.approx({s: n if s in first else 3 * n for s, n in one.items()})


@pytest.mark.parametrize("name", entries("measure/baselines"))
def test_baselines_have_as_many_inputs_as_are_planned(name: str) -> None:
    inputs = baseline(name).inputs
    drawn = inputs(["a b c", "d e"], np.random.default_rng(0)) if inputs else []
    assert _INPUTS.get(name, 0) == len(drawn)


def test_a_run_is_told_of_at_the_rates_of_as_many_threads_as_jobs_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_model("llama").config.save_pretrained(tmp_path)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    with caplog.at_level(logging.INFO):
        log_run(configuration(compute={"threads": 3, "device": "cpu"}), "gemma-3-270m", tmp_path)
    (told,) = caplog.messages
    assert threads == [3]
    assert told.startswith("gemma-3-270m, on a processor like this one: 186 jobs with 7 texts of ")


def test_a_run_that_can_not_be_estimated_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Rates:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    tiny_model("llama").config.save_pretrained(tmp_path)
    monkeypatch.setattr(run_plan, "measured_rates", full)
    with caplog.at_level(logging.INFO):
        log_run(configuration(), "gemma-3-270m", tmp_path)
    (told,) = caplog.messages
    assert told.endswith("how long a run takes can't be estimated here: CUDA out of memory.")


def test_hours_are_told_without_exponents() -> None:
    told = run_in_words(configuration(), "gemma-3-270m", SIZE, Rates(1e2, 1e9))
    hours = re.search(r"about ([0-9,]+) hours", told)
    assert hours and int(hours[1].replace(",", "")) > 1000


def test_a_run_is_told_in_one_sentence() -> None:
    told = run_in_words(configuration(), "gemma-3-270m", SIZE, Rates(1e9, 1e9))
    assert told.startswith("186 jobs with 7 texts of about 32 tokens each, ")
    assert " hours one after the other at the measured 1 gigaoperations per second" in told
