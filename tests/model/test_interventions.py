"""Whole label words, two of which begin alike, under interventions: against full prompts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from anchorflow.analyses.attention.summarize import auc_of_predictions
from anchorflow.analyses.cutoff import measure as cutoff
from anchorflow.analyses.cutoff.measure import measure_cutoff
from anchorflow.analyses.faithfulness.measure import measure_faithfulness
from anchorflow.analyses.flow import measure as saliency
from anchorflow.analyses.isolation import measure as isolation
from anchorflow.analyses.isolation.measure import isolated_positions, measure_isolation
from anchorflow.analyses.knockout import measure as knockout
from anchorflow.analyses.knockout.measure import measure_knockout
from anchorflow.analyses.transplant import measure as transplant
from anchorflow.analyses.transplant.measure import measure_transplant
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.prepare.positions import edges_of
from constructed.attention import attention_table, predictions_table
from tiny_models import PREFIX, PlainCut, tiny_model
from whole_vocabulary import assert_in_vocabulary
from worded_prompts import ALIKE, Logits, alike_prompts, apart, eager, plain_word_scores, with_words

SUM = {"scoring": "whole_word", "word_score": "sum"}
FAMILIES = ["gptj", "gemma3"]


def assert_scores(rows: pl.DataFrame, plain: Logits, table: pl.DataFrame) -> None:
    """Label probabilities are those of plain runs, and no two labels have the same ones."""
    found = torch.tensor(rows.sort("example")["probabilities"].to_list())
    scores = [plain_word_scores(plain, ids, ALIKE) for ids in table["token_ids"]]
    logits = torch.stack([plain(ids)[-1] for ids in table["token_ids"].to_list()])
    assert_in_vocabulary(rows.sort("example"), logits, [word[0] for word in ALIKE])
    expected = torch.stack(scores).softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert (expected.diff(dim=1).abs() > 1e-7).all()


def assert_cut(
    rows: pl.DataFrame,
    table: pl.DataFrame,
    family: str,
    edges_of_row: Callable[[dict[str, Any]], Tensor],
    layers: range,
) -> None:
    """As in runs in which edges [T, T] are cut, for tokens after a prompt those of its last one."""
    model = tiny_model(family)
    for row in table.iter_rows(named=True):
        edges, prompt = edges_of_row(row), row["tokens"]

        def logits(token_ids: list[int], edges: Tensor = edges, prompt: int = prompt) -> Tensor:
            whole = torch.zeros(1, *2 * [len(token_ids)], dtype=torch.bool)
            whole[0, :prompt, :prompt] = edges
            whole[0, prompt:, :prompt] = edges[-1]
            with intervene(PlainCut(whole, layers, "mask")), torch.no_grad():
                found: Tensor = model(torch.tensor([token_ids]), use_cache=False).logits[0]
            return found

        same = pl.col("example") == row["example"]
        assert_scores(rows.filter(same), logits, table.filter(same))


@pytest.mark.parametrize("family", FAMILIES)
def test_words_after_isolated_label_words_equal_full_prompts(family: str) -> None:
    table, model = alike_prompts(), tiny_model(family)
    depth = model.config.num_hidden_layers
    settings = isolation.settings_of(["mask"], [1, 2], 1, depth, "tiny")
    measured = measure_isolation(model, table, settings, 3, 40, scoring=SUM)
    untouched = eager(tiny_model(family, eager=True))
    assert_scores(measured.filter(positions="none"), untouched, table)
    for setting in settings:

        def isolated(row: dict[str, Any], setting: isolation.Setting = setting) -> Tensor:
            positions = isolated_positions(setting, row, PREFIX)
            edges = torch.zeros(row["tokens"], row["tokens"], dtype=torch.bool)
            edges[positions] = torch.ones_like(edges).tril(-1)[positions]
            return edges

        rows = measured.filter(**setting._asdict())
        assert_cut(rows, table, family, isolated, setting.isolated_layers(depth))


@pytest.mark.parametrize("family", FAMILIES)
def test_words_after_cut_edges_see_no_more_than_the_target_does(family: str) -> None:
    table, model = alike_prompts(), tiny_model(family)
    depth = model.config.num_hidden_layers
    classes = ["label_to_target", "text_to_label", "demonstrations_to_query"]
    settings = [
        setting
        for setting in knockout.settings_of(classes, ["all", "thirds"], 1, depth)
        if not setting.control
    ]
    measured = measure_knockout(model, table, settings, "mask", 3, 40, scoring=SUM)
    first = measure_knockout(model, apart(table), settings, "mask", 3, 40)
    order = ["example", "edges", "layer", "layers"]
    losses = [rows.sort(order)["loss"].to_numpy() for rows in (measured, first)]
    np.testing.assert_allclose(*losses, rtol=1e-5)  # of first tokens
    for setting in settings:

        def edges(row: dict[str, Any], name: str = setting.edges) -> Tensor:
            return torch.from_numpy(edges_of(row, name))

        rows = measured.filter(**setting._asdict())
        assert_cut(rows, table, family, edges, setting.cut_layers)


@pytest.mark.parametrize("family", FAMILIES)
def test_words_without_demonstrations_equal_full_prompts(family: str) -> None:
    table, model = alike_prompts(), tiny_model(family)
    depth = model.config.num_hidden_layers
    settings = cutoff.settings_of(["first", "label"], 1, 1, depth)
    measured = measure_cutoff(model, table, settings, 3, 40, scoring=SUM)
    for setting in settings:

        def unseen(row: dict[str, Any], setting: cutoff.Setting = setting) -> Tensor:
            edges = torch.zeros(row["tokens"], row["tokens"], dtype=torch.bool)
            edges[PREFIX:, :PREFIX] = True
            edges[:, cutoff.seen_positions(setting, row, PREFIX)] = False
            return edges

        rows = measured.filter(sees=setting.sees, layer=setting.layer)
        assert_cut(rows, table, family, unseen, range(setting.layer, depth))


@pytest.mark.parametrize("family", FAMILIES)
def test_words_after_transplants_are_those_of_the_donor(family: str) -> None:
    # Words of two tokens alone, so that they can take one another's place.
    table = with_words(alike_prompts(), [2, 2, 2])
    model = tiny_model(family)
    depth = model.config.num_hidden_layers
    what = ("keys_values",)
    settings = transplant.settings_of(["demonstrations"], ("permuted",), what, 1, 1, depth)
    measured = measure_transplant(model, table, settings, 50, scoring=SUM)
    runs = transplant._Runs(model, table, settings)
    donor = runs._donors["permuted", 0]
    assert donor is not None
    shared = len(donor.token_ids)
    ids = [donor.token_ids + row[shared:] for row in table["token_ids"].to_list()]
    plain = eager(tiny_model(family, eager=True))
    given = table.with_columns(token_ids=pl.Series(ids))
    for what_is in ("prompt", "keys_values"):
        rows = measured.filter(pl.col("what") == what_is)
        rows = rows.filter(pl.col("side").is_in(["none", "all"]))
        assert_scores(rows, plain, given)
    assert_scores(measured.filter(what="none"), plain, table)


def test_saliency_and_faithfulness_take_labels_that_share_their_first_token_together() -> None:
    table, model = alike_prompts(), tiny_model("llama")
    both, classes = (table, apart(table)), ["label_to_target", "text_to_label"]
    together, expected = (saliency.measure_flow(model, each, 100, "fixed") for each in both)
    assert together.equals(expected)
    estimates = [measure_faithfulness(model, each, classes, 1, 2, 100) for each in both]
    assert estimates[0].equals(estimates[1])


def auc(groups: Sequence[int], predicted: Sequence[int]) -> float:
    """AUCROC of one layer in which label words of labels 0, 1, 2 are attended to as given."""
    towards = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2], [0.2, 0.7, 0.1]]
    attention = attention_table(torch.tensor(towards)[:, None, None].numpy(), [0, 1, 2])
    predictions = predictions_table(predicted, 3).with_columns(
        token_groups=pl.Series([list(groups)] * 4)
    )
    statistic = auc_of_predictions(attention, predictions)
    return float(statistic(torch.ones(1, 4).numpy())[0, 0])


def test_auc_has_one_class_for_labels_that_share_their_first_token() -> None:
    # Of labels 1 and 2 together, the mean attention: .1, .45, .2, .4 after shares, beside .8, .1,
    # .6, .2 to label 0; texts 1 and 3 are predicted as one of them, and stand out perfectly.
    assert auc([0, 1, 1], [0, 1, 0, 2]) == 1
    assert auc([0, 1, 2], [0, 1, 0, 2]) < 1


def test_first_tokens_that_labels_share_are_not_scored() -> None:
    with pytest.raises(InputError, match=r"^tasks\.news\.labels: .*begin with the same token; set"):
        measure_isolation(tiny_model("llama"), alike_prompts(), [], 3, 40)
