"""Claims on several models, and what they compare over relative depth."""

import re
from pathlib import Path

import polars as pl
import pytest

from anchorflow.analyses.attention import ATTENTION_SUMMARY
from anchorflow.analyses.confusion import CONFUSION_SUMMARY
from anchorflow.analyses.flow import FLOW_SUMMARY
from anchorflow.analyses.isolation import ISOLATION_SUMMARY
from anchorflow.analyses.kernel import KERNEL_SUMMARY
from anchorflow.claims.claim import Curve, Depth, Isolated
from anchorflow.claims.plot_comparison import isolated_depths, over_depth
from anchorflow.claims.schema import CLAIMS, TRAINING
from anchorflow.claims.summarize import load_claims
from anchorflow.store.parquet import read_settings, read_table, write_frame
from checkout import Checkout

SUMMARIES = {
    "flow": FLOW_SUMMARY,
    "isolation": ISOLATION_SUMMARY,
    "attention": ATTENTION_SUMMARY,
    "confusion": CONFUSION_SUMMARY,
    "kernel": KERNEL_SUMMARY,
}


def test_what_claims_compare_over_depth_is_in_the_summaries() -> None:
    shown = {claim.name: claim.over_depth for claim in load_claims() if claim.over_depth}
    assert {"flow_early", "isolation_first_over_last", "heads_reconstruct"} <= set(shown)
    assert not {"anchors_faster_than_full_cache", "retrieval_helps"} & set(shown)
    for of_claim in shown.values():
        if isinstance(of_claim, Depth):
            for curve in of_claim.curves:
                assert {"layer", *curve.rows} <= set(SUMMARIES[curve.table].names)
        else:
            assert all(set(each.sides) <= {"first", "last"} for each in of_claim)


def test_a_layer_lies_at_the_depth_of_its_middle() -> None:
    rows = {"layer": [1, 0, 1], "task": ["average", "average", "news"], "measure": "auc"}
    attention = pl.DataFrame({**rows, "mean": [0.7, 0.5, 0.9], "low": 0.1, "high": 0.9})
    auc, expected = Curve("AUC", "attention", {"measure": "auc"}), [(0.25, 0.5, 0.1, 0.9)]
    expected += [(0.75, 0.7, 0.1, 0.9)]
    assert over_depth(auc, {"attention": attention}, [0, 1]).rows() == expected
    hybrid = attention.with_columns(pl.col("layer").replace({0: 2, 1: 7}))  # where others attend
    assert over_depth(auc, {"attention": hybrid}, [2, 7]).rows() == expected


def test_of_several_heads_the_best_is_taken_with_its_own_interval() -> None:
    heads = pl.DataFrame(
        {
            "task": "average",
            "layer": [0, 0, 0, 1],
            "measure": "agreement",
            "mean": [0.2, 0.6, None, None],
            "low": [0.1, 0.5, None, None],
            "high": [0.3, 0.7, None, None],
        }
    )
    curve = over_depth(Curve("best", "kernel", {"measure": "agreement"}), {"kernel": heads}, [0, 1])
    assert curve.rows() == [(0.25, 0.6, 0.5, 0.7)]


def test_isolated_layers_lie_at_the_ends_as_many_as_at_most() -> None:
    loyalty = pl.DataFrame(
        {
            "task": "average",
            "variant": ["mask", "mask", "mask", "mask", "zero"],
            "measure": "retained",
            "positions": ["label", "label", "label", "random", "label"],
            "side": ["first", "last", "first", "first", "first"],
            "layers": [2, 2, 1, 2, 2],
            "mean": [0.4, 0.9, 0.5, 0.8, 0.1],
            "low": 0.0,
            "high": 1.0,
        }
    )
    both = Isolated("label words", "label", ("first", "last"))
    assert isolated_depths(both, loyalty, "mask", 8).rows() == [
        (0.0, 0.25, 0.4, 0.0, 1.0),
        (0.75, 1.0, 0.9, 0.0, 1.0),
    ]


def test_one_model_is_compared_with_none(shared_run: Checkout) -> None:
    assert not (shared_run.folder / "results/figures/comparison").exists()


@pytest.fixture
def two_models(finished_run: Checkout) -> Checkout:
    """A run of two checkpoints, the second of which answers as the first, but for its claims."""
    tiny = {**finished_run.config["models"]["tiny"], "checkpoint_of": "tiny"}
    finished_run.config["models"] |= {"tiny": tiny, "tiny-step8": tiny}
    results = finished_run.folder / "results"
    for name, schema in {**SUMMARIES, "claims": CLAIMS}.items():
        path = results / "summaries" / name / "tiny.parquet"
        frame = read_table(path, schema).with_columns(model=pl.lit("tiny-step8"))
        if name == "claims":
            frame = frame.with_columns(
                effect=None, low=None, high=None, verdict=pl.lit("not measured")
            )
            frame = frame.cast({"effect": pl.Float64, "low": pl.Float64, "high": pl.Float64})
        write_frame(path.with_name("tiny-step8.parquet"), schema, frame, read_settings(path))
    return finished_run


@pytest.mark.long
def test_a_second_model_has_every_claim_plotted(two_models: Checkout) -> None:
    """Also over training, of which both are checkpoints."""
    planned = two_models.planned()
    both = {"Plotting the claims on all models", "Plotting the claims over the training of tiny"}
    assert both <= planned
    assert not [message for message in planned - both if re.search(r"\btiny\b(?!-)", message)]
    target = "results/figures/comparison"
    training = "results/figures/training/tiny.png"
    rules = ("plot_comparison", "plot_training")
    two_models.snakemake("--cores", "1", "--allowed-rules", *rules, "--", target, training)
    # Snakemake marks folders that it has made by a hidden file in them.
    plotted = {
        path.name: path.stat().st_size for path in (two_models.folder / target).glob("[!.]*")
    }
    assert set(plotted) == {f"{c.name}.{kind}" for c in load_claims() for kind in ("pdf", "png")}
    assert min(plotted.values()) > 3000
    hidden = [path.name for path in Path(two_models.folder / "results/figures").glob(".*")]
    assert hidden == []
    assert (two_models.folder / training).stat().st_size > 3000
    found = read_table(two_models.folder / "results/summaries/training/tiny.parquet", TRAINING)
    shown = found.filter(claim="flow_early", task="average").drop("question", "unit")
    own = read_table(two_models.folder / "results/summaries/claims/tiny.parquet", CLAIMS)
    (effect,) = own.filter(claim="flow_early", task="average")["effect"]
    wanted = ("model", "order", "checkpoint", "step", "effect")
    assert shown.select(wanted).rows() == [
        ("tiny", 0, "tiny", None, effect),
        ("tiny-step8", 1, "step8", None, None),
    ]
