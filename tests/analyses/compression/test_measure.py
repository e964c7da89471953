"""Compressed demonstrations against full prompts, and what every method keeps."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from anchorflow.analyses.compression.measure import (
    ANCHOR,
    BOTH,
    FIRST_ONLY,
    FULL,
    Setting,
    compress,
    kept_of,
    measure_compression,
    settings_of,
)
from anchorflow.analyses.compression.observations import declares, observe
from anchorflow.analyses.reweighting.measure import measure_reweighting
from anchorflow.config.errors import InputError
from anchorflow.kept_positions import METHODS
from anchorflow.model.attention_function import PADDING, Attention, AttentionCall, intervene
from anchorflow.model.batches import Batch, Budget
from anchorflow.model.beta_fit import Descent, beta_of, fit_reweighting
from anchorflow.model.last_tokens import keep_together
from anchorflow.model.prefix import shared_token_ids
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import Template
from anchorflow.random_draws import generator
from table_files import assert_same
from tiny_models import (
    FAMILIES,
    PREFIX,
    PlainCompression,
    methods_of,
    shared_prompts,
    tiny_model,
    whole_batch,
)
from tiny_models import KINDS as OTHER_KINDS
from whole_vocabulary import assert_predicted, logits_in_full
from worded_prompts import (
    KINDS,
    QUESTIONS,
    eager_compressed,
    splitting_tokenizer,
    with_instruction,
    with_words,
)

SPEC = {
    "methods": ["text_anchor", "hidden_anchor", "hidden_random", "label_only", "format_only"],
    "shares": [0.2, 0.5],
    "draws": 3,
    "positions": "original",
}
# One of each kind: the same everywhere, by layer, by head, of unequal numbers, in whole.
SAMPLE = ["hidden_random", "tova", "snapkv", "kvzip", "hidden_fewer_balanced"]
FIT = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0}


class PlainReweighted:
    """A plain compression with exp(β) on the targets' rows."""

    def __init__(self, beta: Tensor, batch: Batch, plain: PlainCompression) -> None:
        self._beta, self._batch, self._plain = beta, batch, plain

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        weights, value = self._plain.weights(call)
        factors = torch.ones_like(weights)
        for example, target in enumerate(self._batch.target_positions):
            spans = zip(self._batch.label_positions, self._batch.label_ends, strict=True)
            for k, (first, end) in enumerate(zip(*list(spans)[example], strict=True)):
                factors[example, :, target, first:end] = self._beta[call.layer, :, k, None].exp()
        return (weights * factors) @ value


def measured(
    family: str, table: pl.DataFrame, on_anchors: Tensor | None = None, **changes: object
) -> pl.DataFrame:
    """Rows of all methods, with β of zero on everything, and by default on the anchors too."""
    model = tiny_model(family)
    of_text = model.config.get_text_config()
    beta = torch.zeros(of_text.num_hidden_layers, of_text.num_attention_heads, 3)
    betas = {FULL: beta, ANCHOR: beta if on_anchors is None else on_anchors}
    return measure_compression(model, table, betas, {**SPEC, **changes}, 50)


def beta_on_anchors(
    family: str, table: pl.DataFrame, spec: Mapping[str, Any], positions: str
) -> tuple[Tensor, Tensor]:
    """β fitted on everything and on the anchors alone, as for re-weighting."""
    training = table.with_columns(demonstrations=pl.lit("training"))
    tables = measure_reweighting(
        tiny_model(family),
        pl.concat([table, training]),
        [" a", " b", " c"],
        {**spec, "baselines": [], "further_rates": []},
        50,
        anchors=positions,
    )
    return beta_of(tables.beta), beta_of(tables.beta_anchor)


WHOLE = [name for name in METHODS if declares(name, "WHOLE")]
INSTRUCTION, SEPARATED = [0, 1, 2], 3  # tokens before the demonstrations of instructed()


def instructed() -> pl.DataFrame:
    """Prompts whose 30 tokens of demonstrations come after an instruction and a separator."""
    return with_instruction(shared_prompts([5, 17, 9]), len(INSTRUCTION))


@pytest.mark.parametrize(
    ("family", "before", "some"),
    [
        *((family, [], SAMPLE) for family in FAMILIES),
        ("gpt2", INSTRUCTION, METHODS),
        ("gemma3", INSTRUCTION, METHODS),
        *(
            pytest.param(family, [], METHODS, marks=pytest.mark.long)
            for family in (*FAMILIES, *OTHER_KINDS)
            if not family.startswith("selected")  # which is refused
        ),
    ],
)
def test_every_method_equals_full_prompts_that_may_see_only_what_is_kept(
    family: str, before: list[int], some: Collection[str]
) -> None:
    table = instructed() if before else shared_prompts([5, 17, 9])
    model, shared = tiny_model(family), table["query_start"][0]
    methods = [name for name in methods_of(family) if name in some and name != "full"]
    methods = [name for name in methods if not declares(name, "PER_QUERY")]
    shown = observe(model, shared_token_ids(table), table.row(0, named=True), methods)
    rows = measured(family, table, methods=methods)
    assert set(rows["shared"]) == {shared}
    for setting in settings_of(methods, SPEC["shares"], 2):
        if setting not in BOTH and declares(setting.method, "AS_TEXT"):
            continue
        prefix = compress(model, shown, setting).prefix
        kept = {at: layer.positions for at, layer in prefix.layers.items()}
        if setting == FULL:
            kept = dict.fromkeys(kept, torch.arange(shared)[None])
        elif setting == FIRST_ONLY:  # the first token, or the instruction
            assert all(at.tolist() == [before or [0]] for at in kept.values())
        elif not before:
            budget = len(shown.anchors())
            budget = budget if setting.share is None else int(setting.share * PREFIX)
            expected = METHODS[setting.method](shown, budget, setting.draw)
            if min(at.shape[1] for at in expected.values()) > 0:  # else, no demonstration fits
                assert all(torch.equal(kept[at], expected[at]) for at in kept)
        for positions in kept.values():
            assert positions[:, : len(before)].tolist() == [before] * len(positions)
            assert all((row[row < PADDING].diff() > 0).all() for row in positions)
        names = setting._asdict().items()
        chosen = rows.filter(pl.col(name).eq_missing(value) for name, value in names)
        logits = logits_in_full(model, table, PlainCompression(kept, shared))
        assert_predicted(chosen, logits, table["label_tokens"][0].to_list())


def test_keeping_everything_is_in_context_learning_and_weights_of_zero_change_nothing() -> None:
    table = shared_prompts([5, 17, 9])
    rows, logits = measured("gemma3", table), logits_in_full(tiny_model("gemma3"), table)
    for method in ("full", "reweighted"):
        chosen = rows.filter(method=method)
        assert_predicted(chosen, logits, table["label_tokens"][0].to_list())
        assert set(chosen["kept"]) == set(chosen["shared"]) == {PREFIX}


@pytest.mark.parametrize(
    ("family", "words"),
    [("gpt2", [2, 1, 3]), ("gptj", [2, 1, 3]), ("llama", [1, 1, 1]), ("gemma3", [2, 1, 3])],
)
def test_weights_are_fitted_to_the_compressed_cache(family: str, words: list[int]) -> None:
    model, table = tiny_model(family), with_words(shared_prompts([5, 17, 9]), words)
    full = whole_batch(table)
    shown = observe(model, shared_token_ids(table), table.row(0, named=True))
    cache = compress(model, shown, ANCHOR)
    learned = keep_together(model, table, cache.prefix, Budget(1000))
    beta, steps = Descent(0.1, 2, 0).fit(model, learned, generator(0, "news", "reweighting"))
    kept = dict(METHODS["hidden_anchor"](shown, 0, 0))
    plain_beta = torch.nn.Parameter(torch.zeros_like(beta))
    optimizer = torch.optim.Adam([plain_beta], lr=0.1)
    for step in steps:
        with intervene(PlainReweighted(plain_beta, full, PlainCompression(kept))):
            logits = model(input_ids=full.input_ids, use_cache=False).logits
            logits = logits[torch.arange(full.size), full.target_positions][:, full.label_tokens]
            loss = torch.nn.functional.cross_entropy(logits, full.labels)
            optimizer.zero_grad()
            loss.backward()
        assert step.loss == pytest.approx(loss.item(), rel=1e-3)
        optimizer.step()
    torch.testing.assert_close(beta, plain_beta.detach(), rtol=1e-3, atol=1e-4)
    _, ours = beta_on_anchors(family, table, FIT, "original")
    torch.testing.assert_close(ours, plain_beta.detach(), rtol=1e-3, atol=1e-4)
    rows = measured(family, table, on_anchors=ours).filter(method="reweighted_anchor")
    plain = PlainReweighted(beta, full, PlainCompression(kept))
    assert_predicted(rows, logits_in_full(model, table, plain), full.label_tokens.tolist(), 1e-3)


@pytest.mark.parametrize(("family", "positions"), [("gpt2", "original"), ("gemma3", "zero")])
def test_fits_on_both_caches_side_by_side_are_those_of_each_alone(
    family: str, positions: str
) -> None:
    """Losses and β, with two rates, of which halves of the texts select one."""
    model, table = tiny_model(family), shared_prompts([5, 17, 9, 4, 6, 8])
    spec = {"learning_rates": [0.1, 0.03], "epochs": 3, "batch_size": 2}
    shown = observe(model, shared_token_ids(table), table.row(0, named=True))
    cell = (table["seed"][0], table["task"][0])
    alone = []
    for setting in (FULL, ANCHOR):
        cache = compress(model, shown, setting, positions)
        learned = keep_together(model, table, cache.prefix, Budget(50), cache.first_position)
        alone += fit_reweighting(model, [learned], spec, *cell)
    together = beta_on_anchors(family, table, spec, positions)
    for ours, fit in zip(together, alone, strict=True):
        torch.testing.assert_close(ours, fit.beta, rtol=1e-3, atol=1e-5)
    assert (together[0] - together[1]).abs().max() > 1e-3
    prefix = compress(model, shown, FULL).prefix
    cache = compress(model, shown, ANCHOR, positions)
    on_anchors = keep_together(model, table, cache.prefix, Budget(50), cache.first_position)
    everything = keep_together(model, table, prefix, Budget(50))
    _, fit = fit_reweighting(model, [everything, on_anchors.on(prefix)], spec, *cell)
    for trial, of_alone in zip(fit.trials, alone[1].trials, strict=True):
        assert trial[:2] == of_alone[:2]
        assert trial.loss == pytest.approx(of_alone.loss, rel=1e-5)
        ours, theirs = ([step.loss for step in each.steps] for each in (trial, of_alone))
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert fit.descent == alone[1].descent


@pytest.mark.parametrize("family", ["selected tokens", "selected blocks"])
def test_models_that_select_keys_are_refused_before_anything_runs(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17])
    monkeypatch.setattr(model, "forward", None)
    monkeypatch.setattr(model.base_model, "forward", None)
    with pytest.raises(InputError, match="selects by itself the tokens that it attends to"):
        measure_compression(model, table, {}, {**SPEC, "methods": [*METHODS]}, 50)


def test_a_cache_that_nothing_was_fitted_on_is_told() -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17])
    spec = {"methods": ["hidden_anchor"], "shares": [], "draws": 1, "positions": "original"}
    with pytest.raises(InputError, match="has no β for the cache hidden_anchor; delete"):
        measure_compression(model, table, {ANCHOR: torch.zeros(0, 0, 0)}, spec, 1000)


@pytest.mark.parametrize(
    ("words", "anchors"),
    [
        ([1, 1, 1], [0, 8, 9, 10, 18, 19, 20, 28, 29]),
        ([2, 1, 3], [0, 7, 8, 9, 10, 18, 19, 20, 26, 27, 28, 29]),
        ([], [*INSTRUCTION, SEPARATED, 4, 12, 13, 14, 22, 23, 24, 32, 33]),
    ],
)
def test_anchors_as_text_are_that_text_after_any_instruction(
    words: list[int], anchors: list[int]
) -> None:
    table = with_words(shared_prompts([5, 17, 9]), words) if words else instructed()
    model = tiny_model("gemma3")
    rows = measured("gemma3", table).filter(method="text_anchor").sort("example")
    assert set(rows["kept"]) == {len(anchors)}
    logits = []
    for prompt in table.sort("example").iter_rows(named=True):
        ids = prompt["token_ids"]
        text = torch.tensor([[*(ids[p] for p in anchors), *ids[prompt["query_start"] :]]])
        with torch.no_grad():
            logits.append(model(text, use_cache=False).logits[0, -1])
    assert_predicted(rows, torch.stack(logits), table["label_tokens"][0].to_list())


@pytest.mark.parametrize(("family", "before"), [("gpt2", []), ("gemma3", INSTRUCTION)])
def test_whole_demonstrations_are_a_shorter_prompt_or_what_the_whole_one_holds_of_them(
    family: str, before: list[int]
) -> None:
    table = instructed() if before else shared_prompts([5, 17, 9])
    model, prompts = tiny_model(family), table.sort("example").to_dicts()
    shared = prompts[0]["query_start"]
    for row in prompts:  # each query shares tokens with another demonstration
        start = row["demonstration_starts"][row["example"]]
        row["token_ids"][shared + 1 : shared + 4] = row["token_ids"][start + 1 : start + 4]
    table = pl.DataFrame(prompts, schema=table.schema)
    rows = measured(family, table, methods=["hidden_anchor", *WHOLE], shares=[0.5], draws=1)
    nearest = set()
    for row in prompts:
        shown = observe(model, shared_token_ids(table), row)
        for name in WHOLE:
            kept = kept_of(shown, Setting(name, 0.5))
            assert kept is not None
            positions = kept[0][0].tolist()
            assert [*before] == positions[: len(before)]
            spans = zip(row["demonstration_starts"], row["demonstration_ends"], strict=True)
            assert sum({*range(*span)} <= {*positions} for span in spans) == 1
            if "nearest" in name:
                nearest.add((row["example"], positions[-1]))
            (found,) = rows.filter(method=name, share=0.5, example=row["example"]).to_dicts()
            assert found["kept"] == len(positions)
            if name.startswith("text"):
                ids = [*(row["token_ids"][p] for p in positions), *row["token_ids"][shared:]]
                with torch.no_grad():
                    logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            else:
                plain = PlainCompression(dict(kept), shared)
                logits = logits_in_full(model, table, plain)[row["example"]]
            of_labels = logits[row["label_tokens"]].softmax(-1)
            torch.testing.assert_close(
                torch.tensor(found["probabilities"]).float(), of_labels, rtol=1e-4, atol=1e-6
            )
    assert len({last for _, last in nearest}) == len(prompts)


def test_without_room_for_a_demonstration_answers_are_those_without_any() -> None:
    table = shared_prompts([5, 17, 9])
    rows = measured("llama", table, methods=["hidden_anchor", *WHOLE], shares=[0.1])
    columns = ["example", "kept", "probabilities", "top_tokens"]
    without = rows.filter(method="first_only").select(columns)
    assert set(without["kept"]) == {1}
    for name in WHOLE:
        assert rows.filter(method=name, share=0.1).select(columns).equals(without)


def test_the_instruction_is_kept_in_addition_to_equal_budgets() -> None:
    table = instructed()
    model = tiny_model("llama")
    shown = observe(model, shared_token_ids(table), table.row(0, named=True))

    def kept(method: str, share: float | None = None) -> list[int]:
        cache = compress(model, shown, Setting(method, share))
        assert cache.prefix.kept is not None
        return cache.prefix.kept.tolist()

    labels, formats = [12, 22, 32], [4, 13, 14, 23, 24, 33]  # formatting of the demonstrations
    anchors = sorted([*INSTRUCTION, SEPARATED, *formats, *labels])
    assert kept("hidden_anchor") == anchors
    assert kept("label_only") == [*INSTRUCTION, *labels]
    assert kept("format_only") == [*INSTRUCTION, SEPARATED, *formats]
    assert kept("recent") == [*INSTRUCTION, *range(24, 34)]
    assert kept("recent", 0.5) == [*INSTRUCTION, *range(34 - 15, 34)]  # half of 31 tokens
    assert kept("attention_sink", 0.2) == [*INSTRUCTION, 3, 4, 5, 6, 32, 33]
    random = kept("hidden_random")
    assert len(random) == len(anchors)
    assert {*INSTRUCTION, SEPARATED, *formats} < {*random}
    assert {*random}.isdisjoint(labels)
    methods = [name for name in METHODS if name != "full"]
    rows = measured("llama", table, draws=1, methods=methods).filter(pl.col("share").is_null())
    counts = dict(rows.select("method", "kept").unique().iter_rows())
    equal = {method for method, count in counts.items() if count == len(anchors)}
    by_role = {"full", "label_only", "format_only"}
    assert {*METHODS} - equal - {*WHOLE} == {*by_role, "until_layer"}
    assert counts["until_layer"] < len(anchors)  # whole layers do not add up to the budget
    # A demonstration and the separator before the first are 11 tokens, and anchors only 10.
    assert {counts[method] for method in WHOLE} == {counts["first_only"]}


SHOWN = [("Who ate it?", 1), ("What is NATO?", 0), ("What is an atom?", 2)]
ASKED = ["What is it?", "Who is at the abbey?"]


def questions(tokenizer: Tokenizer) -> pl.DataFrame:
    """Prompts whose label words have five, four and three tokens."""
    samples = pl.DataFrame({"example": [0, 1], "text": ASKED, "label": [0, 2]}).with_columns(
        *(pl.lit(value).alias(name) for name, value in (("task", "trec"), ("seed", 0))),
        demonstrations=pl.lit("fixed"),
        demonstration_texts=pl.lit([text for text, _ in SHOWN]),
        demonstration_labels=pl.lit([label for _, label in SHOWN]),
    )
    return build_prompts(samples, tokenizer, Template.parse(QUESTIONS), KINDS, "tiny", 1000)


def pieces_of(query: str) -> list[tuple[str, str]]:
    """The prompt in pieces, each with its kind: format, text, label or query."""
    shown: list[tuple[str, str]] = []
    for text, label in SHOWN:
        shown += [("format", "Question:"), ("text", f" {text}"), ("format", "\nAnswer Type:")]
        shown += [("label", KINDS[label]), ("format", "\n")]
    return [*shown, ("query", f"Question: {query}\nAnswer Type:")]


def tokens_within(
    tokenizer: Tokenizer, pieces: list[tuple[str, str]], kinds: set[str]
) -> list[int]:
    """Tokens of the whole text that lie in pieces of these kinds, by their characters alone."""
    ends = np.cumsum([len(piece) for _, piece in pieces])
    offsets = tokenizer.encode("".join(piece for _, piece in pieces)).offsets
    return [
        token
        for token, (first, last) in enumerate(offsets)
        for (kind, piece), end in zip(pieces, ends, strict=True)
        if kind in kinds and end - len(piece) <= first and last <= end
    ]


@pytest.mark.parametrize("family", ["gpt2", "gpt-neox", "llama", "qwen3"])
def test_whole_label_words_are_anchors_as_in_a_run_with_the_text_written_out(family: str) -> None:
    tokenizer = splitting_tokenizer()
    table, vocabulary = questions(tokenizer), tokenizer.get_vocab_size()
    model, eager = (tiny_model(family, eager=e, vocabulary=vocabulary) for e in (False, True))
    spec = {**SPEC, "shares": [], "draws": 1}
    rows = measure_compression(model, table, {}, spec, 1000)
    for example, query in enumerate(ASKED):
        pieces = pieces_of(query)
        token_ids = tokenizer.encode("".join(piece for _, piece in pieces)).ids
        assert token_ids == table["token_ids"][example].to_list()
        shared = len(tokens_within(tokenizer, pieces, {"format", "text", "label"}))
        labels = tokens_within(tokenizer, pieces, {"label"})
        formats = tokens_within(tokenizer, pieces, {"format"})
        assert len(labels) == 5 + 4 + 3
        first = [tokenizer.encode(word).ids[0] for word in KINDS]

        written = "".join(piece for kind, piece in pieces if kind in ("format", "label"))
        assert written.startswith("Question:\nAnswer Type: Entity\nQuestion:\nAnswer Type: Abbrev")
        anchors_as_text = tokenizer.encode(written).ids
        assert anchors_as_text == [token_ids[p] for p in sorted(formats + labels)]
        ids = tokenizer.encode(written + pieces[-1][1]).ids
        expected = {
            "text_anchor": (len(anchors_as_text), eager_compressed(eager, ids, 0, [])),
            **{
                method: (len(kept), eager_compressed(eager, token_ids, shared, kept))
                for method, kept in (
                    ("hidden_anchor", formats + labels),
                    ("label_only", labels),
                    ("format_only", formats),
                )
            },
        }
        for method, (count, logits) in expected.items():
            (row,) = rows.filter(example=example, method=method).to_dicts()
            torch.testing.assert_close(
                torch.tensor(row["probabilities"]), logits[first].softmax(-1), rtol=1e-4, atol=1e-6
            )
            assert row["kept"] == count
            assert row["top_tokens"] == logits.topk(5).indices.tolist()
        random = rows.filter(example=example, method="hidden_random")
        assert random["kept"].to_list() == [len(formats + labels)]


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3"])
def test_queries_may_begin_at_position_zero_as_in_the_authors_code(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17])
    shown = observe(model, shared_token_ids(table), table.row(0, named=True))
    kept = dict(METHODS["hidden_anchor"](shown, 0, 0))
    places = torch.arange(whole_batch(table).input_ids.shape[1])
    places = torch.where(places < PREFIX, places, places - PREFIX)[None]
    zero, original = (
        measured(family, table, positions=positions).filter(method="hidden_anchor")
        for positions in ("zero", "original")
    )
    logits = logits_in_full(model, table, PlainCompression(kept), position_ids=places)
    assert_predicted(zero, logits, table["label_tokens"][0].to_list())
    assert original["probabilities"].to_list() != zero["probabilities"].to_list()


def test_random_draws_repeat_and_differ() -> None:
    table = shared_prompts([5, 17, 9])
    once, again = measured("llama", table), measured("llama", table)
    assert once.equals(again)
    random = once.filter(pl.col("method") == "hidden_random")
    assert random["draw"].unique().sort().to_list() == [0, 1, 2]
    by_draw = random.sort("draw", "example").group_by("draw", maintain_order=True)
    assert len({str(rows["probabilities"].to_list()) for _, rows in by_draw}) == 3


def test_a_method_that_leaves_nothing_is_told() -> None:
    table = shared_prompts([5]).with_columns(format_positions=pl.lit([], dtype=pl.List(pl.Int64)))
    shown = observe(tiny_model("llama"), shared_token_ids(table), table.row(0, named=True))
    with pytest.raises(InputError, match="format_only keeps no token of the demonstrations of new"):
        compress(tiny_model("llama"), shown, Setting("format_only"))


def test_without_weights_to_apply_all_else_is_the_same() -> None:
    """Untrained twins have none; their other rows are those of any model."""
    table = shared_prompts([5, 17, 9])
    model = tiny_model("llama")
    rows = measure_compression(model, table, {}, SPEC, 50)
    assert not rows["method"].str.starts_with("reweighted").any()
    fitted = measured("llama", table)
    expected = fitted.filter(~pl.col("method").str.starts_with("reweighted"))
    assert len(rows) == len(expected) < len(fitted)
    assert_same(rows, expected)
