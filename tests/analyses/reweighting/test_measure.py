"""Re-weighting and its baselines against a plain computation on full prompts."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from anchorflow.analyses.reweighting import measure as reweighting
from anchorflow.analyses.reweighting.baselines import FOLDER, Baseline, Observed
from anchorflow.analyses.reweighting.baselines.attention_regression import attention_regression
from anchorflow.analyses.reweighting.baselines.calibrated import calibrated
from anchorflow.analyses.reweighting.measure import SCHEMAS, measure_reweighting
from anchorflow.config.errors import InputError
from anchorflow.config.registry import entries
from tiny_models import plain_attentions, shared_prompts, single, tiny_model, whole_batch
from whole_vocabulary import assert_in_vocabulary
from worded_prompts import with_words


def prompts_with(protocols: dict[str, int], classes: int = 3) -> pl.DataFrame:
    """Prompts that share their demonstrations, so many of each protocol."""
    count = sum(protocols.values())
    table = shared_prompts([5 + example % 7 for example in range(count)])
    names = [name for name, number in protocols.items() for _ in range(number)]
    examples = [place for number in protocols.values() for place in range(number)]
    labels = [place % classes for place in examples]
    return table.with_columns(
        pl.Series("demonstrations", names),
        pl.Series("example", examples, dtype=pl.Int32),
        pl.Series("label", labels, dtype=pl.Int32),
    )


SPEC = {"baselines": entries(FOLDER), "learning_rates": [0.1], "further_rates": []}
SPEC |= {"epochs": 2, "batch_size": 0}
KINDS = {"fixed": 5, "training": 6, "calibrated": 3, "domain_calibrated": 4, "many": 5}
WORDS = [" a", " b", " c"]


def test_baselines_equal_a_plain_computation_on_full_prompts() -> None:
    model, prompts = tiny_model("llama"), with_words(prompts_with(KINDS), [2, 1, 3])
    measured = measure_reweighting(model, prompts, WORDS, SPEC, 40).predictions
    full = whole_batch(prompts.with_columns(example=pl.int_range(pl.len(), dtype=pl.Int32)))
    eager = tiny_model("llama", eager=True)
    rows, features, of_vocabulary = [], [], []
    for row in range(len(prompts)):
        logits, attentions = plain_attentions(eager, single(full, full.examples.index(row)))
        rows.append(logits[full.label_tokens].softmax(-1).numpy())
        of_vocabulary.append(logits)
        to_words = [attentions[:, :, -1, a:b].sum(-1) for a, b in ((7, 9), (18, 19), (26, 29))]
        features.append(torch.stack(to_words, -1).flatten().numpy())
    plain = np.stack(rows)
    test, free, random_words, many = plain[:5], plain[11:14], plain[14:18], plain[18:]
    for method, expected in (
        ("vanilla", test),
        ("calibrated", test / free.mean(0)),
        ("domain_calibrated", test / random_words.mean(0)),
        ("batch_calibrated", test / test.mean(0)),
        ("bias_removed", test / np.exp(np.log(plain[5:11]).mean(0))),
        ("many", many),
    ):
        ours = measured.filter(pl.col("method") == method).sort("example")
        normalized = expected / expected.sum(1, keepdims=True)
        np.testing.assert_allclose(ours["probabilities"].to_list(), normalized, rtol=1e-4)
    for method, begin, end in (("vanilla", 0, 5), ("many", 18, 23)):
        ours = measured.filter(pl.col("method") == method).sort("example")
        logits = torch.stack(of_vocabulary[begin:end])
        assert_in_vocabulary(ours, logits, full.label_tokens.tolist())
    of_baselines = measured.filter(pl.col("method").is_in(SPEC["baselines"]))
    assert of_baselines.select("label_mass", "in_labels").null_count().row(0) == (25, 25)
    labels = prompts["label"].to_numpy()[5:11]
    regression = attention_regression(np.stack(features[5:11]), labels)
    ours = measured.filter(pl.col("method") == "attention_regression").sort("example")
    np.testing.assert_allclose(
        ours["probabilities"].to_list(), regression(np.stack(features[:5])), rtol=1e-3
    )


def test_inputs_of_baselines_are_answered_as_test_texts_are_without_and_with_each_beta() -> None:
    texts = prompts_with({"fixed": 3, "training": 6})
    inputs = texts.filter(demonstrations="fixed").with_columns(demonstrations=pl.lit("calibrated"))
    spec = {**SPEC, "baselines": ["calibrated"], "further_rates": [0.01]}
    measured = measure_reweighting(tiny_model("llama"), pl.concat([texts, inputs]), WORDS, spec, 40)
    assert measured.inputs["baseline"].unique().to_list() == ["calibrated"]
    both = measured.predictions.join(measured.inputs, on=["example", "method"], suffix="_as_input")
    assert sorted(both["method"]) == sorted(["vanilla", "reweighted", "reweighted_0.01"] * 3)
    found = both["probabilities_as_input"].to_list()
    np.testing.assert_allclose(found, both["probabilities"].to_list(), rtol=1e-5)


def test_routing_is_a_further_method_that_changes_no_other_and_tells_its_coefficients() -> None:
    model, prompts = tiny_model("llama"), prompts_with(KINDS)
    plain = measure_reweighting(model, prompts, WORDS, SPEC, 40)
    routed = measure_reweighting(model, prompts, WORDS, {**SPEC, "routing_rank": 2}, 40)
    for name in ("beta", "descent", "predictions", "inputs"):
        before, after = getattr(plain, name), getattr(routed, name)
        more = after.filter(method="routed") if "method" in after.columns else after.clear()
        assert_frame_equal(after.join(more, on=after.columns, how="anti"), before)
    answers = routed.predictions.filter(method="routed")
    assert len(answers) == 5 and not answers["label_mass"].is_null().any()
    layers, heads = (plain.beta[name].n_unique() for name in ("layer", "head"))
    counts = routed.routing.group_by("part").len().rows()
    assert dict(counts) == {"direction": 2 * layers, "head": heads * layers}
    assert plain.routing.is_empty() and plain.routing.schema == routed.routing.schema
    moved = routed.routing.with_columns(from_start=pl.col("value") - (pl.col("part") == "head"))
    assert 0.05 < moved["from_start"].abs().max() < 0.21  # two steps of at most .1 each


def test_further_rates_are_fitted_each_by_itself_and_the_chosen_one_once() -> None:
    model, prompts = tiny_model("llama"), prompts_with(KINDS)
    further = {**SPEC, "further_rates": [0.1, 0.01]}
    measured = measure_reweighting(model, prompts, WORDS, further, 40)
    small = measure_reweighting(model, prompts, WORDS, {**SPEC, "learning_rates": [0.01]}, 40)

    def probabilities(table: pl.DataFrame, method: str) -> np.ndarray:
        return np.array(table.filter(method=method).sort("example")["probabilities"].to_list())

    chosen = probabilities(measured.predictions, "reweighted")
    np.testing.assert_array_equal(probabilities(measured.predictions, "reweighted_0.1"), chosen)
    np.testing.assert_allclose(
        probabilities(measured.predictions, "reweighted_0.01"),
        probabilities(small.predictions, "reweighted"),
        rtol=1e-5,
    )
    assert np.abs(probabilities(small.predictions, "reweighted") - chosen).max() > 1e-3
    assert measured.descent["learning_rate"].to_list() == [0.1, 0.1, 0.01, 0.01]
    alone = measure_reweighting(model, prompts, WORDS, SPEC, 40)
    # Fits side by side have the rounding errors of larger products.
    assert_frame_equal(measured.beta, alone.beta, rel_tol=1e-3, abs_tol=1e-5)
    np.testing.assert_allclose(probabilities(alone.predictions, "reweighted"), chosen, rtol=1e-4)


def test_a_further_rate_that_diverges_is_told_by_its_key() -> None:
    spec = {**SPEC, "further_rates": [1e30]}
    with pytest.raises(InputError, match=r"reweighting.further_rates: for tasks.news, with the"):
        measure_reweighting(tiny_model("llama"), prompts_with(KINDS), WORDS, spec, 40)


def test_a_label_that_is_all_but_impossible_has_a_probability_above_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A word of 40 tokens may be 200 nats less likely than one of 1; float32 ends at 103."""
    scores = torch.tensor([[0.0, -200.0], [-1.0, -202.0]])
    monkeypatch.setattr(reweighting, "label_scores", lambda *given: scores)
    tokens = SimpleNamespace(examples=[0, 1])
    found = reweighting.label_probabilities(tiny_model("llama"), tokens)
    np.testing.assert_allclose(np.log(found[:, 1]), [-200, -201], rtol=1e-6)
    evenly = calibrated(found, found[:1])
    np.testing.assert_allclose(evenly, [[0.5, 0.5], [1 / (1 + np.exp(-1)), 1 / (1 + np.e)]])


def test_a_baseline_without_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(observed: Observed) -> np.ndarray:
        return observed.vanilla * np.nan

    monkeypatch.setattr(reweighting, "baseline", lambda name: Baseline(predict, None))
    with pytest.raises(InputError, match=r"reweighting.baselines: \w+ has no finite label prob"):
        measure_reweighting(tiny_model("llama"), prompts_with(KINDS), WORDS, SPEC, 40)


def test_prompts_that_are_too_long_leave_the_other_methods_or_empty_tables() -> None:
    long = pl.when(pl.col("demonstrations") == "many").then(pl.lit("too long"))
    for skipped, methods in (
        (long, {"vanilla", "reweighted", *SPEC["baselines"]}),
        (pl.lit("too long"), set()),
    ):
        prompts = prompts_with(KINDS).with_columns(skipped=skipped)
        measured = measure_reweighting(tiny_model("llama"), prompts, WORDS, SPEC, 40)
        assert set(measured.predictions["method"]) == methods
    assert [frame.height for frame in measured] == [0] * len(SCHEMAS)


def test_answers_do_not_depend_on_how_many_texts_run_at_once() -> None:
    model, prompts = tiny_model("llama"), prompts_with(KINDS)
    few, at_once = (measure_reweighting(model, prompts, WORDS, SPEC, n) for n in (1, 1000))
    for method in ("many", "domain_calibrated", "batch_calibrated"):
        ours, theirs = (
            np.array(each.predictions.filter(method=method)["probabilities"].to_list())
            for each in (few, at_once)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_a_label_whose_training_texts_are_all_too_long_is_told() -> None:
    learned = (pl.col("demonstrations") == "training") & (pl.col("label") == 1)
    prompts = prompts_with(KINDS).with_columns(skipped=pl.when(learned).then(pl.lit("too long")))
    with pytest.raises(InputError, match=r'tasks.news: no training text of the label "b" gives a'):
        measure_reweighting(tiny_model("llama"), prompts, WORDS, SPEC, 40)


def test_an_input_of_a_baseline_that_is_too_long_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    method = "domain_calibrated"
    model, spec = tiny_model("llama"), {**SPEC, "baselines": [method]}
    prompts, its_own = prompts_with(KINDS), pl.col("demonstrations") == method
    last = its_own & (pl.col("example") == 3)
    some = prompts.with_columns(skipped=pl.when(last).then(pl.lit("too long")))
    ours = measure_reweighting(model, some, WORDS, spec, 40).predictions
    assert "1 of 4 inputs of the baseline domain_calibrated are left out" in caplog.text
    fewer = measure_reweighting(model, prompts.filter(~last), WORDS, spec, 40).predictions
    assert ours.equals(fewer)
    none = prompts.with_columns(skipped=pl.when(its_own).then(pl.lit("too long")))
    with pytest.raises(InputError, match=r"tasks.news: no input of the baseline domain_calibrated"):
        measure_reweighting(model, none, WORDS, spec, 40)
