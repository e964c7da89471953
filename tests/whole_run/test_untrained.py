"""Untrained twins and shuffled labels: which jobs they add, and who reads what these leave."""

import json
from collections.abc import Callable

import polars as pl

from checkout import Checkout
from job_messages import MEASURE, PROMPT, TWIN, UNTRAINED, cells

TASKS, SEEDS = ["reviews", "news"], [0, 1]


def of_twin(twin: str, *templates: str) -> set[str]:
    return cells([t.replace("tiny", twin) for t in templates], TASKS, SEEDS, untrained=False)


def test_only_what_the_controls_name_is_measured_of_twins(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    whole = checkout.planned()
    checkout.config["controls"] = {"untrained": []}
    without = checkout.planned()
    assert not [message for message in without if "+" in message or "untrained" in message]
    made = {UNTRAINED.format(kind="shuffled", draw=0)}
    assert whole - without == of_twin(TWIN, PROMPT, MEASURE["flow"], MEASURE["compression"]) | made
    assert without < whole

    controls = {"untrained": ["initialized", "shuffled"], "draws": 2}
    checkout.config["controls"] = controls | {"stages": ["attention", "isolation"]}
    twins = {f"tiny+{k}-{d}": (k, d) for k in ("initialized", "shuffled") for d in (0, 1)}
    expected = {UNTRAINED.format(kind=kind, draw=draw) for kind, draw in twins.values()}
    for twin in twins:
        expected |= of_twin(twin, PROMPT, MEASURE["attention"], MEASURE["isolation"])
    assert checkout.planned() - without == expected


def test_shuffled_labels_add_predictions_of_every_task_that_only_claims_read(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    checkout.config["controls"] = {"untrained": []}
    without = checkout.planned()
    checkout.config["controls"]["shuffled_labels"] = True
    shuffled = ["reviews+shuffled", "news+shuffled"]
    assert checkout.planned() - without == cells([PROMPT, "attention"], shuffled, SEEDS)
    checkout.config["tasks"]["news"]["label_words"] = {"symbols": [" A", " B", " C", " D"]}
    compared = checkout.planned("results/summaries/label_words/tiny.parquet")
    assert cells(["flow"], ["news+symbols"], SEEDS) <= compared
    assert not [message for message in compared if "+shuffled" in message]


def test_twins_are_in_no_summary_figure_or_table_of_models(shared_run: Checkout) -> None:
    results = shared_run.folder / "results"
    files = [path.relative_to(results) for path in results.rglob("*+*")]
    folders = {file.parts[0] for file in files} - {"benchmarks"}
    assert folders == {"models", "prompts", "flow", "compression"}
    for table in (results / "tables").glob("*.csv"):
        frame = pl.read_csv(table, infer_schema=False)
        assert "model" not in frame.columns or set(frame["model"]) == {"tiny"}, table


def test_a_twin_is_measured_as_its_model_is_on_the_same_prompts(shared_run: Checkout) -> None:
    results = shared_run.folder / "results"
    for stage in ("prompts", "flow", "compression"):
        own, twin = (
            pl.read_parquet(results / f"{stage}/{model}/news/0.parquet") for model in ("tiny", TWIN)
        )
        assert set(twin["model"]) == {TWIN}
        if stage == "prompts":
            assert twin.drop("model").equals(own.drop("model"))
        elif stage == "flow":
            keys = ["task", "seed", "example", "layer"]
            assert twin.select(keys).equals(own.select(keys))
            assert not twin.drop("model").equals(own.drop("model"))
        else:
            left_out = {"reweighted", "reweighted_anchor"}
            assert set(own["method"]) - set(twin["method"]) == left_out
    card = json.loads((results / "models" / TWIN / "model.json").read_bytes())
    assert card["untrained"] == {"kind": "shuffled", "draw": 0, "model": "tiny"}
