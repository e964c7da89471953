"""What a whole run is planned to take, counted from its configuration."""

from typing import Any

import pytest
import yaml

from anchorflow.config.configuration import complete_configuration
from anchorflow.config.stages import STAGES
from anchorflow.model.operations import Rates, Size, operations
from anchorflow.model.run_plan import run_in_words, whole_run
from checkout import ROOT

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


def test_more_seeds_repeat_all_but_what_is_of_the_first_one() -> None:
    def run(seeds: list[int]) -> dict[str, float]:
        found = whole_run(configuration(seeds=seeds), "gemma-3-270m", 18)
        return {stage: operations(planned.passes, SIZE) for stage, planned in found.items()}

    one, three = run([0]), run([0, 1, 2])
    first = {"timing", "token_saliency"}
    assert three == pytest.approx({s: n if s in first else 3 * n for s, n in one.items()})


def test_a_run_is_told_in_one_sentence() -> None:
    told = run_in_words(configuration(), "gemma-3-270m", SIZE, Rates(1e9, 1e9))
    assert told.startswith("186 jobs with 7 texts of about 32 tokens each, ")
    assert " hours one after the other at the measured 1 gigaoperations per second" in told
