"""Cut edges of attention against attention written out in full, and what they must change."""

from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import Tensor

from anchorflow.analyses.knockout import measure as knockout
from anchorflow.analyses.knockout.measure import (
    UNTOUCHED,
    CellEdges,
    Cut,
    Setting,
    as_heavy,
    measure_knockout,
    settings_of,
)
from anchorflow.config.errors import InputError
from anchorflow.depth import bands_of
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.logits import target_logits
from anchorflow.prepare.positions import AS_HEAVY, CLASSES, edges_of, random_ranks
from anchorflow.random_draws import generator
from constructed.wordy import wordy_prompts
from tiny_models import (
    FAMILIES,
    HYBRIDS,
    PlainCut,
    depth_of,
    full_attention,
    shared_prompts,
    tiny_model,
    whole_batch,
)
from whole_vocabulary import assert_predicted, logits_in_full

SHARED = 24  # tokens of the demonstrations of wordy_prompts
EVERY = tuple(CLASSES)


def whole_edges(table: pl.DataFrame, setting: Setting) -> Tensor:
    """The edges of every prompt in full, in the order of ``whole_batch``: [B, T, T]."""
    batch, of_cell = whole_batch(table), CellEdges(table, SHARED)
    draw = setting.draw if setting.control else None
    edges = torch.zeros(batch.size, *2 * [batch.input_ids.shape[1]], dtype=torch.bool)
    for row, example in enumerate(batch.examples):
        prefix = torch.from_numpy(of_cell.of_prefix(setting.edges, draw))
        query = torch.from_numpy(of_cell.of_query(setting.edges, draw, example))
        edges[row, :SHARED, :SHARED] = prefix
        edges[row, SHARED : SHARED + len(query), : query.shape[1]] = query
    return edges


def rows_of(measured: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return measured.filter(**setting._asdict()).sort("example")


VARIANTS = [*((family, "mask") for family in FAMILIES), ("gpt2", "zero"), ("gemma3", "zero")]
VARIANTS += [("lfm2", "mask")]
VARIANTS += [pytest.param(f, "mask", marks=pytest.mark.long) for f in HYBRIDS if f != "lfm2"]


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_every_cut_equals_attention_matrices_cut_in_full(
    family: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    depth = depth_of(model)
    # Other families differ in their attention, not in their edges.
    classes = EVERY if family in ("llama", "gemma3") else EVERY[::4]
    settings = settings_of(classes, ["single", "all"], 1, depth)
    monkeypatch.setattr(knockout, "_ROW_ELEMENTS", 200)  # several chunks
    measured = measure_knockout(model, table, settings, variant, 4, 50)
    full = whole_batch(table)
    labels = full.labels[torch.tensor(full.examples).argsort()]
    for setting in [UNTOUCHED, *settings]:
        edges = torch.zeros(1, 1, 1, dtype=torch.bool)
        if setting != UNTOUCHED:
            edges = whole_edges(table, setting)
        logits = logits_in_full(model, table, PlainCut(edges, setting.cut_layers, variant))
        rows = rows_of(measured, setting)
        assert_predicted(rows, logits, full.label_tokens.tolist())
        scores = logits[:, full.label_tokens].double()
        loss = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
        assert rows["loss"].to_list() == pytest.approx(loss.tolist(), rel=1e-4, abs=1e-5)


class PlainHeavy(PlainCut):
    """Attention matrices in full, of which keys are cut one by one until they hold as much."""

    def __init__(self, labels: Tensor, ranks: Tensor, layers: range, variant: str) -> None:
        super().__init__(torch.zeros_like(labels), layers, variant)
        self._labels, self._ranks = labels, ranks

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        scores, hidden, _ = full_attention(call)
        mean = scores.masked_fill(hidden, -torch.inf).softmax(-1).mean(1)  # over heads
        self._edges = torch.zeros_like(self._labels)
        for row, token in self._labels.any(2).nonzero().tolist():
            wanted, reached = float(mean[row, token][self._labels[row, token]].sum()), 0.0
            for rank in range(1, int(self._ranks[row, token].max()) + 1):
                (key,) = (self._ranks[row, token] == rank).nonzero()[0].tolist()
                weight = float(mean[row, token, key])
                if reached + weight / 2 <= wanted and wanted > 0:
                    self._edges[row, token, key] = True
                reached += weight
        return super().attend(call, attention)


@pytest.mark.parametrize(("family", "variant"), [("gpt2", "zero"), ("gemma3", "mask")])
def test_other_keys_of_equal_attention_are_those_of_attention_written_out(
    family: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    settings = settings_of([AS_HEAVY], ["single", "all"], 1, depth_of(model))
    assert not any(setting.control for setting in settings)
    monkeypatch.setattr(knockout, "_ROW_ELEMENTS", 200)  # several chunks
    measured = measure_knockout(model, table, settings, variant, 4, 50)
    full, rows = whole_batch(table), {row["example"]: row for row in table.iter_rows(named=True)}
    labels = torch.zeros(full.size, *2 * [full.input_ids.shape[1]], dtype=torch.bool)
    ranks = labels.long()
    for place, example in enumerate(full.examples):
        edges = edges_of(rows[example], "label_to_target")
        random = generator(
            rows[example]["seed"], rows[example]["task"], "knockout", AS_HEAVY, example
        )
        size = len(edges)
        labels[place, :size, :size] = torch.from_numpy(edges)
        ranks[place, SHARED:size, :size] = torch.from_numpy(random_ranks(edges[SHARED:], random))
    for setting in settings:
        plain = PlainHeavy(labels, ranks, setting.cut_layers, variant)
        rows, logits = rows_of(measured, setting), logits_in_full(model, table, plain)
        assert_predicted(rows, logits, full.label_tokens.tolist())
        assert rows["cut"].sum() > 0  # label words outside a window hold no attention


def test_keys_are_taken_in_the_order_of_their_ranks_until_they_hold_as_much_attention() -> None:
    attention = torch.tensor([[[[0.3, 0.1, 0.2, 0.05, 0.35]]]])
    edges = torch.tensor([[[True, False, False, False, False]]])

    def taken(ranks: list[int]) -> list[int]:
        (found,) = as_heavy(attention, edges, torch.tensor([[ranks]]))[0]
        return found.nonzero().flatten().tolist()

    assert taken([0, 1, 2, 3, 4]) == [1, 2]  # 0.3 in all
    assert taken([0, 4, 3, 2, 1]) == [4]  # 0.35, of which more than half was needed
    assert taken([0, 1, 3, 2, 4]) == [1, 2, 3]  # 0.15 and 0.2, of which 0.15 was needed
    assert taken([0, 1, 0, 2, 0]) == [1, 3]  # there is no more
    assert (
        as_heavy(attention, torch.zeros_like(edges), torch.tensor([[[0, 1, 2, 3, 4]]])).sum() == 0
    )


def test_without_windows_every_edge_of_a_class_is_cut_once_per_layer() -> None:
    table = wordy_prompts([5, 17], "fixed")
    measured = measure_knockout(
        tiny_model("llama"), table, settings_of(EVERY, ["single", "all"], 0, 3), "mask", 4, 500
    )
    for prompt in table.iter_rows(named=True):
        for name in EVERY:
            rows = measured.filter(
                pl.col("edges") == name, pl.col("example") == prompt["example"]
            ).sort("band", "layer")
            edges = int(edges_of(prompt, name).sum())
            assert rows["cut"].to_list() == [3 * edges, edges, edges, edges], name


def test_with_all_edges_from_demonstrations_cut_they_have_no_influence_on_the_answer() -> None:
    model, table = tiny_model("llama"), wordy_prompts([5, 9], "fixed")
    kinds = ("label", "text", "template")
    names = [*(f"{kind}_to_target" for kind in kinds), "demonstrations_to_query", "first_to_all"]
    full = whole_batch(table)
    edges = sum(whole_edges(table, Setting(n, False, 0, "all", 0, 3)).int() for n in names) > 0
    changed = full.input_ids.clone()
    changed[:, :SHARED] = (changed[:, :SHARED] + 5) % 97
    other = replace(full, input_ids=changed)
    assert not torch.equal(target_logits(model, full), target_logits(model, other))
    with intervene(Cut(edges, range(3), "mask")):
        answers = [target_logits(model, batch) for batch in (full, other)]
    torch.testing.assert_close(*answers, rtol=0, atol=1e-6)


def test_cutting_edges_into_demonstrations_in_the_last_layer_alone_changes_no_answer() -> None:
    model, table = tiny_model("llama"), wordy_prompts([5, 17], "fixed")
    settings = settings_of(["text_to_label", "label_to_target"], ["single"], 0, 3)
    measured = measure_knockout(model, table, settings, "mask", 4, 500)
    columns = ["probabilities", "top_tokens"]
    untouched = rows_of(measured, UNTOUCHED).select(columns)
    into_words = [rows_of(measured, setting).select(columns) for setting in settings[:3]]
    assert [rows.equals(untouched) for rows in into_words] == [False, False, True]
    into_target = [rows_of(measured, setting).select(columns) for setting in settings[3:]]
    assert [rows.equals(untouched) for rows in into_target] == [False, False, False]


def test_rows_that_lose_no_edge_stay_the_same_bit_for_bit() -> None:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 2, 6, 4, generator=random) for _ in range(3))
    call = AttentionCall(1, query, key, value, 0.5)
    edges = torch.zeros(2, 6, 6, dtype=torch.bool)
    edges[0, 4, 1] = True
    given = torch.randn(2, 2, 6, 4, generator=random)
    cut = Cut(edges, [1], "mask")
    now = cut.attend(call, lambda _: given)
    changed = (now != given).any(3).any(1)
    assert changed.nonzero().tolist() == [[0, 4]]
    assert cut.count.tolist() == [1, 0]
    assert torch.equal(Cut(edges, [0], "mask").attend(call, lambda _: given), given)


@pytest.mark.parametrize(
    ("name", "family", "first"),  # in lfm2, layers 1 and 3 attend
    [("label_to_target", "llama", 0), ("text_to_label", "llama", 0), ("text_to_label", "lfm2", 1)],
)
def test_a_cut_that_changes_nothing_is_an_error_and_no_row_of_zeros(
    name: str, family: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Idle(Cut):
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            output = super().attend(call, attention)
            self.changed = False
            return output

    monkeypatch.setattr(knockout, "Cut", Idle)
    model, prompts = tiny_model(family), wordy_prompts([5], "fixed")
    settings = settings_of([name], ["all"], 0, depth_of(model))
    said = rf"knockout.classes: cutting {name} from layer {first} on left the attention of model"
    with pytest.raises(InputError, match=said):
        measure_knockout(model, prompts, settings, "mask", 4, 500)


@pytest.mark.parametrize("name", ["label_to_target", "text_to_label"])
def test_a_layer_that_no_cut_reaches_is_an_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Cut):
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            return attention(call) if call.layer == 1 else super().attend(call, attention)

    monkeypatch.setattr(knockout, "Cut", Elsewhere)
    settings = settings_of([name], ["all"], 0, 3)
    with pytest.raises(InputError, match="knockout: 1 layers of model tiny do not pass"):
        measure_knockout(tiny_model("llama"), wordy_prompts([5], "fixed"), settings, "mask", 4, 500)


def test_layers_are_cut_alone_or_by_thirds_or_all_at_once() -> None:
    assert bands_of("all", 18) == [("all", 0, 18)]
    assert bands_of("thirds", 18) == [("first", 0, 6), ("middle", 6, 6), ("last", 12, 6)]
    assert bands_of("thirds", 4) == [("first", 0, 1), ("middle", 1, 2), ("last", 3, 1)]
    assert bands_of("thirds", 2) == [("first", 0, 1), ("last", 1, 1)]
    assert [layer for _, layer, _ in bands_of("single", 32)] == list(range(32))
    assert [layer for _, layer, _ in bands_of("single", 33)] == list(range(0, 33, 2))


def test_classes_that_a_task_does_not_have_are_left_out_with_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = shared_prompts([5, 17])
    bare = table.with_columns(format_positions=pl.Series([[0, 30], [0, 30]]))
    settings = settings_of(["template_to_label", "label_to_target"], ["all"], 1, 3)
    measured = measure_knockout(tiny_model("llama"), bare, settings, "mask", 4, 500)
    assert set(measured["edges"]) == {"none", "label_to_target"}
    assert caplog.messages == [
        "Not cut: edges from a demonstration's template to its label word. Prompts of task news "
        "have no such pair of tokens (knockout.classes)."
    ]


def test_prompts_that_are_too_long_are_left_out() -> None:
    table = wordy_prompts([5, 17], "fixed").with_columns(skipped=pl.lit("exceeds the context"))
    assert measure_knockout(tiny_model("llama"), table, [], "mask", 4, 500).is_empty()


def test_more_tokens_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(InputError, match=r"knockout.top_tokens: 98 is more than the 97 tokens"):
        measure_knockout(tiny_model("llama"), wordy_prompts([5], "fixed"), [], "mask", 98, 50)
