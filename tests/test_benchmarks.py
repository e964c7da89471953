"""The benchmark for GPUs, on the CPU with a tiny model: its table, its order, what it needs."""

import importlib
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchorflow.statistics.estimates import SeedStatistic, estimate, weighted_mean
from checkout import ROOT

pytestmark = pytest.mark.xdist_group("benchmarks")  # one process runs them

MEASUREMENTS = ["saliency", "isolation", "prediction", "kernel", "fit"]

# Of what the project installs, the benchmark is to do without the first. All in one process, since
# importing torch and transformers takes longest.
SCRIPT = """
import json, sys
absent = "snakemake datasets matplotlib sklearn sentence_transformers jsonschema".split()
sys.modules.update(dict.fromkeys(absent))
sys.path.insert(0, "benchmarks")
import gpu, torch
report = sys.argv[1]

def ended(*arguments):
    sys.argv[1:] = arguments
    try:
        gpu.main()
    except SystemExit as end:
        return end.code

def too_large():
    raise torch.OutOfMemoryError("CUDA out of memory")

small = "--device cpu --shapes tiny --tokens 128 8192 --dtypes float32 --seconds 0.01".split()
told = {
    "without a GPU": ended(),
    "odd tokens": ended("--device", "cpu", "--tokens", "100"),
    "tiny": ended(*small, "--budget", "300", "--json", report),
    "too large": gpu.taken(gpu.Way(too_large, 1, 1.0), torch.device("cpu"), 0.01),
    "line": gpu.line_of(
        gpu.Row("m", "bfloat16", "saliency", 4096, 1, 2.0, None, None, 0.5, 7.0, None, 0.01)
    ),
    "tests": [path.relative_to(gpu.TESTS).as_posix() for path in gpu.files_with_cuda_tests()],
    "cases": [case[1:] for case in gpu.cases_of(["m"], ["bfloat16", "float32"], [4, 3, 2, 1])],
}
for name in absent:
    del sys.modules[name]
import page
tiny = gpu.random_model("tiny", torch.float32, page.CPU, False)
told["page"] = list(page.of_model("m", tiny, 0.01))
told["slope"] = page.slope([1, 2, 8], [9.0, 1.0, 16.0])
import peers
peers.installed = lambda: dict.fromkeys(peers.PEERS)
few = dict(shape="tiny", texts=2, layers=2, sets=2, rounds=1)
told["peers"] = list(peers.lines(peers.argparse.Namespace(model=None, **few)))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script says, its report, and what was printed before."""
    report = tmp_path_factory.mktemp("gpu") / "gpu.json"
    environment = {"PYTHONPATH": "workflow", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(report)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *printed, last = done.stdout.splitlines()
    return {**json.loads(last), "printed": printed, "report": json.loads(report.read_text())}


@pytest.mark.long
def test_every_measurement_is_compared_with_the_plain_way_and_float64(told: dict[str, Any]) -> None:
    report = told["report"]
    assert told["tiny"] is None
    assert report["device"] == "cpu"
    assert report["matrix_rate"]["float32"] > 0
    assert [row["measurement"] for row in report["rows"]] == MEASUREMENTS
    for row in report["rows"]:
        assert row["error"] < 1e-4, row  # NaN is not less either
        ratio = row["ms_per_prompt_plain"] / row["ms_per_prompt"]
        assert math.isclose(row["times_as_fast"], ratio)
        assert 0 < row["share_of_matrix_rate"] < 1, row


@pytest.mark.long
def test_the_table_has_a_row_for_every_measurement_and_the_rest_is_listed(
    told: dict[str, Any],
) -> None:
    lines = [line for line in told["printed"] if line.startswith("|")]
    header = [name.strip() for name in lines[0].strip("|").split("|")]
    assert header[:4] == ["model", "format", "measurement", "tokens"]
    assert {"times as fast", "share of matrix rate", "MB per prompt", "error"} < set(header)
    assert [line.count("|") for line in lines] == [len(header) + 1] * (2 + len(MEASUREMENTS))
    # The tiny model's context is 4096 tokens.
    reasons = [each["reason"] for each in told["report"]["left_out"]]
    assert reasons == ["longer than the model's context"] * len(MEASUREMENTS)
    said = "- saliency of tiny in float32 at 8192 tokens: longer than the model's context"
    assert said in told["printed"]
    assert "Left out, 5 of 10 cases:" in told["printed"]


@pytest.mark.long
def test_without_a_gpu_or_with_odd_lengths_it_ends_with_one_sentence(told: dict[str, Any]) -> None:
    assert told["without a GPU"].startswith("No CUDA GPU is seen by torch: ")
    assert told["odd tokens"] == "--tokens: 100 is not a multiple of 64 from 128 on."


@pytest.mark.long
def test_a_way_that_does_not_fit_is_said_not_to(told: dict[str, Any]) -> None:
    assert told["too large"] is None
    assert told["line"] == (
        "| m | bfloat16 | saliency | 4096 | 1 | 2.0 | does not fit | – | 50% | 7 | does not fit "
        "| 1.0e-02 |"
    )


@pytest.mark.long
def test_the_most_telling_cases_come_first_and_none_twice(told: dict[str, Any]) -> None:
    cases = [tuple(case) for case in told["cases"]]
    assert cases[:3] == [("bfloat16", "saliency", tokens) for tokens in (4, 3, 2)]
    assert cases[3:7] == [("bfloat16", measurement, 4) for measurement in MEASUREMENTS[1:]]
    assert cases[7] == ("float32", "saliency", 4)
    assert len(set(cases)) == len(cases) == 2 * len(MEASUREMENTS) * 4


@pytest.mark.long
def test_the_tests_that_need_cuda_are_found_without_those_of_whole_runs(
    told: dict[str, Any],
) -> None:
    found = {"analyses/flow/test_measure.py", "model/test_attention_function.py"}
    assert found <= set(told["tests"])
    assert not [name for name in told["tests"] if name.startswith("whole_run")]
    for name in told["tests"]:
        text = (Path(ROOT) / "tests" / name).read_text(encoding="utf-8")
        assert "on_cuda" in text, "run by this part of their names"


@pytest.mark.long
def test_the_page_has_a_row_per_measurement_with_its_share_of_a_limit(told: dict[str, Any]) -> None:
    rows = [line.strip("| ").split(" | ") for line in told["page"] if line.startswith("| ")][2:]
    assert [row[0].split()[0] for row in rows] == [
        *("saliency", "isolation", "prediction", "attention", "fit", "saliency", "compression")
    ]
    for *_, ratio, share in rows[:-1]:
        assert float(ratio) > 0
        assert re.fullmatch(r"\d+% of (the matrix rate|memory bandwidth)", share)
    assert rows[4][-1].endswith("% of memory bandwidth")
    assert told["slope"] == pytest.approx(2)  # of time: 4 times as many take 16 times as long


@pytest.mark.long
def test_beside_peers_both_ways_change_the_same_predictions_by_the_same(
    told: dict[str, Any],
) -> None:
    *lines, last = told["peers"]
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]
    assert [row[:2] for row in rows] == [
        [measurement, way]
        for measurement in ("saliency", "isolation", "ablation", "compression")
        for way in ("anchorflow", "plain")
    ]
    # Relative to the largest change, which is not 0, or this is NaN.
    for (*_, of_plain), (*_, of_ours, _) in zip(rows[::2], rows[1::2], strict=True):
        assert 0 < float(of_plain) < 1e-4
        assert 0 < float(of_ours) < 1e-4
    assert last == "Not installed, so not measured: transformer-lens, nnsight, kvpress."


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script of the folder benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(name)


def test_the_interval_of_another_design_follows_from_the_variances_of_seeds_and_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six seeds of eight texts: the variance between seeds is .04, that between texts .16."""
    power = load("power", monkeypatch)
    spread = power.Spread(seeds=0.04, texts=0.16, tasks=2)
    # (.04 + .16 / 4) / 4 is .02, with 2 · 3 degrees of freedom.
    assert spread.half_width(4, 4, 0.05) == pytest.approx(2.446912 * 0.02**0.5)
    # Of designs that leave 0 out, that in which seeds times (4 + texts) is least.
    found = power.cheapest(0.3, spread, 4, 0.05)
    widths = {
        (seeds, texts): spread.half_width(seeds, texts, 0.05)
        for seeds in power.SEEDS
        for texts in power.TEXTS
    }
    enough = [design for design, width in widths.items() if width < 0.3]
    assert found == min(enough, key=lambda design: design[0] * (4 + design[1]))
    assert power.cheapest(0.0, spread, 4, 0.05) is None


def test_variances_between_seeds_and_texts_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    power, random = load("power", monkeypatch), np.random.default_rng(0)
    seeds = [
        SeedStatistic(weighted_mean(a + 0.4 * random.normal(size=(64, 1))), 64 * n + np.arange(64))
        for n, a in enumerate(0.2 * random.normal(size=400))
    ]
    spread = power.Spread.of(estimate(seeds))
    assert (spread.seeds, spread.texts) == pytest.approx((0.04, 0.16), rel=0.1)
