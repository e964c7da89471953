"""Operations and seconds of jobs, worked out by hand."""

from collections import defaultdict
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from anchorflow.measure import compression, isolation
from anchorflow.measure.timing import _CACHED, OPTIONAL
from anchorflow.model.memory import without_numbers
from anchorflow.model.operations import (
    OF_STAGE,
    PER_JOB,
    PER_LAYER,
    SHARE,
    Passes,
    Prompts,
    Protocols,
    Rates,
    Size,
    by_protocol,
    cut_shares,
    isolated_shares,
    measured_rates,
    operations,
    run_by,
    seconds,
)
from tiny_models import FAMILIES, PREFIX, VOCABULARY, shared_prompts, tiny_model

SIZE = Size(layers=2, weights=1000, head=500, heads=8, hidden=4, itemsize=4)
FIT = {"learning_rates": [0.1], "further_rates": [], "epochs": 10, "batch_size": 4, "anchors": None}


def protocols(**named: Prompts) -> Protocols:
    return defaultdict(lambda: Prompts(0, 0, 0), named)


def totals(stage: str, given: Protocols, spec: dict[str, Any], depth: int = 4) -> list[float]:
    """Passes, tokens in them, products of queries and keys in these, and scored passes."""
    found = OF_STAGE[stage](given, spec, depth, 100)
    columns = [
        (each.number, each.number * each.tokens, each.number * each.tokens * each.keys, each.scored)
        for each in found
    ]
    return [sum(column) for column in zip(*columns, strict=True)]


def test_a_pass_multiplies_weights_with_tokens_and_queries_with_keys() -> None:
    passes = [Passes(3, 10, 7, scored=2, together=4)]
    # 3 passes of 10 tokens with 1000 weights; 2 layers, in which queries and then weights of
    # attention are multiplied with 8 numbers of each of 7 keys; 500 weights of the head with
    # 4 prompts, twice.
    assert (
        operations(passes, SIZE) == 3 * 10 * 2 * 1000 + 2 * 3 * 10 * 7 * 8 * 2 * 2 + 2 * 4 * 2 * 500
    )


def test_seconds_are_those_of_operations_reading_and_starting() -> None:
    passes, rates = [Passes(3, 10, 0, scored=2)], Rates(1e6, 1e5)
    computing = (60_000 + 2_000) / (SHARE * 1e6)
    reading = 4 * (3 * 1000 + 2 * 500) / 1e5
    expected = computing + reading + 3 * 2 * PER_LAYER + 5 * PER_JOB
    assert seconds(passes, SIZE, rates, jobs=5) == pytest.approx(expected)


def test_a_model_s_size_leaves_out_its_token_embeddings() -> None:
    bare = without_numbers(tiny_model("llama").config, torch.bfloat16)
    layers = sum(p.numel() for p in bare.parameters()) - 2 * VOCABULARY * 32
    assert Size.of(bare) == Size(3, layers, VOCABULARY * 32, 32, 32, 2)
    tied = without_numbers(tiny_model("gpt2").config, torch.float32)
    layers = sum(p.numel() for p in tied.parameters()) - (VOCABULARY + 256) * 32  # and positions
    assert Size.of(tied) == Size(3, layers, VOCABULARY * 32, 32, 32, 4)


def test_a_token_is_multiplied_with_the_experts_that_it_is_given_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {**FAMILIES["llama"][1], "num_local_experts": 8, "num_experts_per_tok": 2}
    monkeypatch.setitem(FAMILIES, "mixtral", ("mixtral", settings))
    size = Size.of(without_numbers(tiny_model("mixtral").config, torch.float32))
    # In each of 3 layers, 6 of 8 experts, with three matrices of 32 · 48 each.
    assert size.spared == 3 * 6 * 3 * 32 * 48
    passes = [Passes(1, 10, 0)]
    assert operations(passes, size) == 2 * 10 * (size.weights - size.spared)
    assert Size.of(without_numbers(tiny_model("llama").config, torch.float32)).spared == 0


def test_heads_that_differ_between_layers_are_averaged() -> None:
    config = AutoConfig.for_model("gemma4_text", num_hidden_layers=6)
    size = Size.of(without_numbers(config, torch.bfloat16))
    heads, own, of_every_sixth = config.num_attention_heads, 256, 512
    assert size.heads == round(heads * (5 * own + of_every_sixth) / 6)


def test_the_prompts_of_each_protocol_are_averaged() -> None:
    prompts = shared_prompts([10, 20])
    assert by_protocol(run_by("attention", {}, prompts)) == {"fixed": Prompts(2, PREFIX, 15)}
    skipped = prompts.with_columns(skipped=prompts["task"])
    assert by_protocol(run_by("attention", {}, skipped)) == {}
    assert run_by("saliency", {"demonstrations": "per_example"}, prompts).is_empty()
    assert len(run_by("timing", {"queries": 1}, prompts)) == 1
    few = {"demonstrations": "fixed", "examples": 1}
    assert len(run_by("token_saliency", few, prompts)) == 1
    assert len(run_by("saliency", few, prompts)) == 2


def test_saliency_runs_every_prompt_forward_and_backward() -> None:
    given, spec = protocols(per_example=Prompts(6, 30, 10)), {"demonstrations": "per_example"}
    # 100 tokens hold 2 prompts of 40: 3 batches, twice. On average, a token attends to 20. Seven
    # products of queries and keys are counted as two in each of both passes, hence 7 / 4.
    assert totals("saliency", given, spec) == [6, 480, 480 * 20 * 7 / 4, 0]
    # Between tokens, one prompt at a time; then, of each, once without a cut and with three flows
    # cut in each of the 4 layers, from it on: 1 + 4/4 + 3/4 + 2/4 + 1/4 passes of three prompts.
    times = 6 * 3.5
    shown = [12 + times, 480 + times * 120, 480 * 35 + times * 120 * 20, 0]
    assert totals("token_saliency", given, spec) == shown


def test_shared_demonstrations_run_forward_once_and_backward_for_every_prompt() -> None:
    given, spec = protocols(fixed=Prompts(6, 30, 10)), {"demonstrations": "fixed"}
    passes, tokens, _, scored = totals("saliency", given, spec)
    assert (passes, tokens, scored) == (1 + 6 + 6, 30 + 6 * 30 + 2 * 60, 0)
    always_whole = [12 + 6 * 3.5, 480 + 6 * 3.5 * 120]
    assert totals("token_saliency", given, spec)[:2] == always_whole


def test_predictions_run_demonstrations_once_and_score_every_batch() -> None:
    given = protocols(fixed=Prompts(15, 30, 10))
    # 100 tokens hold 10 queries: 2 batches, whose tokens attend to 30 and, on average, 5 more.
    assert totals("attention", given, {}) == [3, 30 + 150, 30 * 15 + 150 * 35, 2]
    assert totals("diagnosis", given, {}) == [3, 30 + 150, 30 * 15 + 150 * 35, 0]
    assert totals("retrieval", given, {}) == [8, 600, 600 * 20, 8]  # two prompts of 40 at a time


def test_kernel_regression_runs_texts_alone_and_with_fewer_demonstrations() -> None:
    found = totals("kernel", protocols(kernel=Prompts(10, 40, 10)), {"smaller": 2})
    # Demonstrations of 40 tokens, as many as 4 texts; 100 tokens of queries; twice 10 + 4 texts by
    # themselves, in 2 batches; and queries twice more.
    assert [*found[:2], found[3]] == [1 + 1 + 2 * 2 + 2, 40 + 100 + 2 * 140 + 2 * 100, 1 + 2 * 2]
    keys = 40 * 20 + 100 * (40 + 5) + 2 * 140 * 5 + 100 * (20 + 5) + 100 * (10 + 5)
    assert found[2] == keys


def test_isolation_runs_each_setting_from_its_first_isolated_layer_on() -> None:
    spec = {"variants": ["mask"], "positions": ["label", "random"], "draws": 2, "layers": [1, 3]}
    # One draw of label words and two of random tokens; the first layers, or the last of 4.
    assert isolated_shares(spec, 4) == 3 * [1, 1 / 4, 1, 3 / 4]
    given = protocols(fixed=Prompts(10, 30, 10))
    # Demonstrations: once untouched, and 3 · (1 + 1/4 + 1 + 3/4) = 9 times. The queries of each
    # of 12 settings begin one layer, a quarter, later: 10 - 12 / 4 = 7 times 100 tokens.
    assert totals("isolation", given, spec)[:2] == [10 + 7, 10 * 30 + 7 * 100]
    assert totals("isolation", given, spec)[3] == 13 * 10 / 64  # prompts that share the head
    by_default = {**spec, "layers": None}
    assert isolated_shares(by_default, 4) == isolated_shares(spec, 4)


@pytest.mark.parametrize("positions", [["label"], ["label", "random", "text", "before"]])
@pytest.mark.parametrize("layers", [None, [2], [1, 6]])
def test_the_settings_of_isolation_are_those_that_are_measured(
    positions: list[str], layers: list[int] | None
) -> None:
    variants, draws, depth = ["mask", "zero"], 3, 6
    measured = isolation.settings_of(variants, layers, draws, depth, "tiny", positions)
    starts = [each.isolated_layers(depth).start for each in measured]
    spec = {"variants": variants, "positions": positions, "draws": draws, "layers": layers}
    assert sorted(isolated_shares(spec, depth)) == sorted((depth - s) / depth for s in starts)


def test_reweighting_steps_forward_and_backward_with_every_rate() -> None:
    given = protocols(
        fixed=Prompts(10, 30, 10), training=Prompts(8, 30, 10), many=Prompts(10, 90, 10)
    )
    spec = {**FIT, "baselines": []}
    # 10 epochs of 2 steps with 4 texts, forward and backward: 40 passes. Beside these,
    # demonstrations of 30 and of 90 tokens, queries of 100 + 80 + 100, and last tokens of training
    # texts, of those with many demonstrations, and of test texts with β and without.
    expected = [40 + 2 + 3 + 4, 40 * 4 + 120 + 280 + 8 + 10 + 20, 0]
    found = totals("reweighting", given, spec)
    assert [*found[:2], found[3]] == expected
    # Two rates, a further one, and two halves of the texts for each of both: 3 + 2 fits' worth.
    more = {**spec, "learning_rates": [0.1, 1], "further_rates": [0.1, 0.01]}
    passes, tokens, _, _ = totals("reweighting", given, more)
    assert (passes, tokens) == (49 + 2, expected[1] + 4 * 160 + 20)
    # With the anchors alone kept, another 2 + 2 fits' worth in the same passes, and the training
    # texts once more.
    both = totals("reweighting", given, {**more, "anchors": "original"})
    assert both[:2] == [passes + 1, tokens + 4 * 160 + 80]


def test_compression_runs_every_cache() -> None:
    spec = {
        "methods": ["hidden_anchor", "text_anchor", "hidden_random", "snapkv"],
        "draws": 3,
        "shares": [0.5, 0.25],
        "betas": 0,
    }
    given = protocols(fixed=Prompts(10, 30, 10), training=Prompts(8, 30, 10))
    # Everything kept, four methods, two more draws, and two shares of the one that can keep any.
    caches = 1 + 4 + 2 + 2
    assert caches == len(compression.settings_of(spec["methods"], spec["shares"], spec["draws"]))
    found = totals("compression", given, spec)
    assert [*found[:2], found[3]] == [1 + caches, 30 + caches * 100, caches * 10 / 64]
    # With β and without on each of two caches, last tokens run by themselves.
    found = totals("compression", given, {**spec, "betas": 2})
    assert found[:2] == [1 + caches + 4, 30 + caches * 100 + 40]
    assert found[3] == (caches + 2) * 10 / 64


def test_timing_runs_full_prompts_and_five_caches_again_and_again() -> None:
    assert len({*_CACHED} - {*OPTIONAL}) == 5
    spec = {"repetitions": 2, "batch_size": 2}
    # Two batches of two queries, once to warm up and twice to be timed.
    passes, tokens, _, scored = totals("timing", protocols(fixed=Prompts(4, 30, 10)), spec)
    assert (passes, tokens) == (6 + 30, 6 * 80 + 30 * 20)
    also = {**spec, "also": OPTIONAL}
    assert totals("timing", protocols(fixed=Prompts(4, 30, 10)), also)[0] == 6 + 36
    assert scored == passes


def test_rates_are_measured_on_the_machine_at_hand() -> None:
    rates = measured_rates(SIZE._replace(hidden=64), torch.float32, torch.device("cpu"))
    assert 1e8 < rates.bytes < 1e13
    assert rates.bytes / 4 < rates.operations < 1e15


def test_cuts_run_demonstrations_and_queries_from_their_first_layer_on() -> None:
    spec = {"classes": ["label_to_target", "text_to_label"], "layers": ["single"], "draws": 1}
    given = protocols(fixed=Prompts(10, 30, 10))
    # Four layers, each from itself on: 10/4 of the layers for each class and its random edges.
    assert cut_shares(spec, 4) == (2 * [1, 3 / 4, 2 / 4, 1 / 4], 4 * [1, 3 / 4, 2 / 4, 1 / 4])
    # Demonstrations once and 5 times for the edges into them; queries 10 times and, untouched, once
    # for each 8 of 17 runs: 13 times 100 tokens.
    assert totals("knockout", given, spec)[:2] == [6 + 13, 6 * 30 + 13 * 100]
    assert totals("knockout", given, {**spec, "examples": 5})[:2] == [6 + 13, 6 * 30 + 13 * 50]


def test_integrated_saliency_runs_every_layer_s_steps_on_whole_prompts() -> None:
    spec, given = {"steps": 2}, protocols(fixed=Prompts(6, 30, 10))
    # 100 tokens hold 2 prompts of 40: 3 batches, 4 times for saliency and attention, and twice for
    # each of 4 layers.
    assert totals("faithfulness", given, spec)[:2] == [12 * 3, 12 * 240]


def test_cutoffs_run_queries_from_each_layer_on() -> None:
    spec = {"sees": ["first", "random"], "draws": 2, "every": 2}
    given = protocols(fixed=Prompts(10, 30, 10))
    # What is seen: 1 + 2 ways, from layers 0 and 2 of 4: 3 · 6/4 times; untouched once for 8 runs.
    assert totals("cutoff", given, spec)[:2] == [1 + 5.5, 30 + 5.5 * 100]


def test_transplants_run_donors_and_what_is_above_what_is_taken() -> None:
    spec = {
        "places": ["label", "text"],
        "donors": ["permuted"],
        "what": ["keys_values", "residual"],
    }
    given = protocols(fixed=Prompts(10, 30, 10))
    # Of two places: bands of all, the middle, the first and the last half, 3/4 of the layers each
    # on average; and one layer's output, with half of the layers above it. 11 runs and the donor.
    shown, asked = 2 + 1, 1 + 1 + 8 * 3 / 4 + 2
    found = totals("transplant", given, {**spec, "depths": 2, "draws": 1})
    assert found[:2] == [shown + asked, shown * 30 + asked * 100]
