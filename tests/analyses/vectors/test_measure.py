"""Vectors put into prompts, against full eager prompts whose layers' outputs hooks replace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.analyses.vectors import ALL, NO_LAYER
from anchorflow.analyses.vectors import measure as vectors
from anchorflow.analyses.vectors.local import cosines, deranged_words, with_random_texts, with_words
from anchorflow.analyses.vectors.measure import (
    chosen_layers,
    layers_at,
    measure_vectors,
    split_in_halves,
    weights_over,
    with_last_demonstrations,
)
from anchorflow.config.errors import InputError
from anchorflow.model.layers import attending_layers
from anchorflow.random_draws import generator
from constructed.wordy import wordy_prompts
from plain_heads import NORMED, projection_of
from plain_softmax import plain_logits
from tiny_models import HYBRIDS, KINDS, PREFIX, VOCABULARY, shared_prompts, tiny_model

TEXTS = [10, 13, 9, 12, 11, 8]  # tokens of the queries, two of each class
WORDS = (8, 18, 28)
SPEC: dict[str, Any] = {"kinds": ["task", "function", "local"], "depths": 2, "heads": 99}
Answers = dict[tuple[str, str, int], Tensor]  # probabilities [B, C] by vector, source, and layer


@cache
def prompts() -> pl.DataFrame:
    return shared_prompts(TEXTS)


def other_task() -> pl.DataFrame:
    shorter = shared_prompts([7, 11, 6]).with_columns(task=pl.lit("other"))
    ids = [[(token * 7) % 90 + 1 for token in row] for row in shorter["token_ids"].to_list()]
    return shorter.with_columns(pl.Series("token_ids", ids), label=pl.Series([0, 0, 1]))


def halves() -> np.ndarray:
    return split_in_halves([0, 1, 2, 0, 1, 2], generator(0, "news", "vectors", "halves"))


def found(model: PreTrainedModel, spec: dict[str, Any], **given: Any) -> tuple[pl.DataFrame, Any]:
    return measure_vectors(model, prompts(), spec, range(VOCABULARY), 60, **given)


def probabilities(rows: pl.DataFrame, *setting: Any) -> Tensor:
    names = ("vector", "source", "layer")
    some = rows.filter(**dict(zip(names, setting, strict=True))).sort("example")
    return torch.tensor(some["probabilities"].to_list())


class Eager:
    """Full eager prompts, in which hooks see and replace layers' outputs."""

    def __init__(self, family: str) -> None:
        self.model = tiny_model(family, eager=True)
        self.family, self.layers = family, attending_layers(self.model)

    def run(
        self,
        ids: list[int],
        hide: bool = False,
        change: tuple[int, Callable[[Tensor], Tensor]] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Probabilities of label words, and layers' outputs with tokens first, [T, ..., hidden]."""
        kept: dict[int, Tensor] = {}

        def forward(layer: int, _: nn.Module, __: Any, output: Any) -> Any:
            hidden = output[0] if isinstance(output, tuple) else output
            streams = hidden.dim() == 4 and hidden.shape[1] == 1  # before examples
            by_token = hidden[:, 0].transpose(0, 1) if streams else hidden[0]
            if change is not None and change[0] == layer:
                by_token = change[1](by_token.clone())
                whole = by_token.transpose(0, 1)[:, None] if streams else by_token[None]
                output = (whole, *output[1:]) if isinstance(output, tuple) else whole
            kept[layer] = by_token
            return output

        hooks = [
            module.register_forward_hook(lambda *a, layer=layer: forward(layer, *a))
            for layer, module in enumerate(self.layers)
        ]
        with torch.no_grad():
            logits = self._alone(ids) if hide and self.family in HYBRIDS else self._whole(ids, hide)
        for hook in hooks:
            hook.remove()
        return logits[[5, 11, 23]].softmax(-1), [kept[layer] for layer in range(len(self.layers))]

    def _whole(self, ids: list[int], hide: bool) -> Tensor:
        """Logits of a whole prompt, of which a query may see the first token alone."""
        hidden = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        hidden[PREFIX:, 1:PREFIX] = hide
        return plain_logits(self.model, ids, lambda *_: hidden)[0]

    def _alone(self, ids: list[int]) -> Tensor:
        """The same where a state would tell the query what is hidden: without these tokens."""
        seen = torch.tensor([[0, *range(PREFIX, len(ids))]])
        given = {"position_ids": seen, "attention_mask": torch.ones_like(seen)}
        run: Any = self.model(torch.tensor([ids])[:, seen[0]], use_cache=False, **given)
        logits: Tensor = run.logits[0, -1]
        return logits

    @contextmanager
    def written(self) -> Iterator[list[Tensor]]:
        """What attention adds to the residual stream at the last token, without a bias, by layer.

        A norm after it scales, by the same factors, what is written with the bias and without it.
        """
        parts: list[Tensor] = []

        def keep(plain: Any, _: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
            parts.append((output - plain(torch.zeros_like(args[0])))[0, -1])

        def scale(_: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
            parts[-1] = parts[-1] * (output / args[0])[0, -1]

        hooks = []
        for layer in self.layers:
            projection = projection_of(layer)
            hooks.append(projection.register_forward_hook(partial(keep, projection.forward)))
            if self.family in NORMED:
                norm: nn.Module = layer.post_attention_layernorm  # type: ignore[assignment]
                hooks.append(norm.register_forward_hook(scale))
        yield parts
        for hook in hooks:
            hook.remove()


def plain_mean(states: list[Tensor], classes: list[int], allowed: list[int]) -> Tensor:
    """The mean over classes of the means of the allowed texts of a class."""
    by_class: dict[int, list[Tensor]] = {}
    for text in allowed:
        by_class.setdefault(classes[text], []).append(states[text])
    return torch.stack([torch.stack(of).mean(0) for of in by_class.values()]).mean(0)


def of_sources() -> dict[str, tuple[list[list[int]], list[int]]]:
    """Token ids and classes of the prompts from which vectors are."""
    table = prompts()
    ids, classes = table["token_ids"].to_list(), table["label"].to_list()
    words = deranged_words(table.row(0, named=True), generator(0, "news", "vectors", "deranged"))
    assert words
    deranged = [with_words(table.row(0, named=True), row, words) for row in ids]
    other = other_task()
    return {
        "own": (ids, classes),
        "deranged": (deranged, classes),
        "without": (ids, classes),
        "other_task": (other["token_ids"].to_list(), other["label"].to_list()),
    }


def compare(family: str, kinds: tuple[str, ...]) -> None:
    rows, _ = found(tiny_model(family), {**SPEC, "kinds": kinds}, other=other_task())
    eager, half = Eager(family), halves()
    layers = layers_at(2, len(eager.layers))
    own, _ = of_sources()["own"]
    for number, hide in ((0, True), (ALL, False)):
        plain = torch.stack([eager.run(ids, hide)[0] for ids in own])
        close(probabilities(rows.filter(number=number), "none", "none", NO_LAYER), plain)
    of_target = [kind for kind in kinds if kind != "local"]
    for source, (ids, of_source) in of_sources().items() if of_target else ():
        states, written = [], []
        for row in ids:
            with eager.written() if "function" in kinds else nullcontext([torch.zeros(1)]) as parts:
                _, outputs = eager.run(row, source == "without")
            written.append(torch.stack([*parts]).sum(0))
            states.append([of[-1] for of in outputs])
        for vector in of_target:
            for layer in layers:
                of_layer = [of[layer] for of in states] if vector == "task" else written
                expected = []
                for text, row in enumerate(own):
                    others = [k for k in range(len(own)) if half[k] != half[text]]
                    allowed = [*range(len(ids))] if source == "other_task" else others
                    mean = plain_mean(of_layer, of_source, allowed)
                    put = put_at_target(mean, add=vector == "function")
                    expected.append(eager.run(row, True, (layer, put))[0])
                close(probabilities(rows, vector, source, layer), torch.stack(expected))
    if "local" in kinds:
        compare_local(eager, rows, layers)


def put_at_target(vector: Tensor, add: bool) -> Callable[[Tensor], Tensor]:
    def put(hidden: Tensor) -> Tensor:
        hidden[-1] = hidden[-1] + vector if add else vector
        return hidden

    return put


def compare_local(eager: Eager, rows: pl.DataFrame, layers: list[int]) -> None:
    table = prompts()
    prompt = table.row(0, named=True)
    draw = generator(0, "news", "vectors", "random texts", 0)
    shared = with_random_texts(prompt, prompt["token_ids"][:PREFIX], range(VOCABULARY), draw)
    recipients = [shared + row[PREFIX:] for row in table["token_ids"].to_list()]
    untouched = torch.stack([eager.run(ids)[0] for ids in recipients])
    close(probabilities(rows, "local", "none", NO_LAYER), untouched)
    for source in ("own", "deranged"):
        _, outputs = eager.run(of_sources()[source][0][0])
        for layer in layers:

            def put(hidden: Tensor, taken: Tensor = outputs[layer]) -> Tensor:
                hidden[list(WORDS)] = taken[list(WORDS)]
                return hidden

            expected = torch.stack([eager.run(ids, False, (layer, put))[0] for ids in recipients])
            close(probabilities(rows, "local", source, layer), expected)


def close(ours: Tensor, plain: Tensor) -> None:
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_every_vector_equals_the_same_change_in_full_eager_prompts(family: str) -> None:
    compare(family, ("task", "function", "local"))


# Norms behind attention, biases, and attention beside the MLP; the others are alike in this.
@pytest.mark.long
@pytest.mark.parametrize("family", ["gpt2", "gptj", "opt", "gemma2", "olmo2"])
def test_every_vector_equals_the_same_change_in_other_families(family: str) -> None:
    compare(family, ("task", "function", "local"))


@pytest.mark.long
@pytest.mark.parametrize("family", [*(k for k in KINDS if "selected" not in k), *HYBRIDS])
def test_every_kind_of_attention_gives_the_plain_numbers(family: str) -> None:
    compare(family, ("task", "local"))


def test_models_that_select_tokens_and_heads_that_are_gated_are_refused() -> None:
    with pytest.raises(InputError, match="selects by itself the tokens that it attends to"):
        found(tiny_model("selected blocks"), {**SPEC, "kinds": ["task"]})
    with pytest.raises(InputError, match=r"what single heads write .* vectors.kinds"):
        found(tiny_model("qwen3-next"), {**SPEC, "kinds": ["function"]})


def test_texts_are_split_within_classes_and_means_count_classes_alike() -> None:
    classes = [0, 0, 1, 1, 1, 1, 2]
    for draw in range(5):
        half = split_in_halves(classes, np.random.default_rng(draw))
        assert [half[:2].sum(), half[2:6].sum()] == [1, 2]
        assert half.sum() in (3, 4)
    allowed = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]) > 0
    weights = weights_over(allowed, torch.tensor([0, 0, 2, 1]))
    # Two texts of class 0 share one half of the weight, a text of class 2 has the other.
    torch.testing.assert_close(weights[:2], torch.tensor([[0.25, 0.25, 0.5, 0], [0, 0.5, 0.5, 0]]))
    assert weights[2].isnan().all()


def test_layers_are_evenly_spaced_and_none_repeats() -> None:
    assert layers_at(6, 18) == [2, 5, 7, 10, 12, 15]
    assert layers_at(1, 18) == [8]
    assert layers_at(6, 3) == [0, 1, 2]


def test_a_text_s_layer_is_chosen_by_the_other_half() -> None:
    half = np.array([0, 1, 0, 1])
    by_layer = {2: [0.9, 0.1, 0.2, 0.1], 5: [0.5, 0.3, 0.5, 0.9], 7: [0.1, 0.9, 0.1, 0.2]}
    # On half 0, means are .55, .5, .1; on half 1, .1, .6, .55.
    assert chosen_layers(by_layer, half).tolist() == [5, 2, 5, 2]
    unknown = {2: [0.9, np.nan, 0.2, 0.1], 5: [0.5, np.nan, 0.5, 0.9]}
    assert chosen_layers(unknown, half).tolist() == [NO_LAYER, 2, NO_LAYER, 2]


def test_a_layer_is_chosen_with_vectors_of_the_same_half_without_the_text_itself() -> None:
    rows, _ = found(tiny_model("llama"), {**SPEC, "kinds": ["task"]})
    eager, half, ids = Eager("llama"), halves(), prompts()["token_ids"].to_list()
    classes, layers = prompts()["label"].to_list(), layers_at(2, 3)
    states = [eager.run(row)[1] for row in ids]
    best = []
    for number in (0, 1):
        some = [text for text in range(len(ids)) if half[text] == number]
        means = []
        for layer in layers:
            of_layer = [of[layer][-1] for of in states]
            right = []
            for text in some:
                others = [other for other in some if other != text]
                put = put_at_target(plain_mean(of_layer, classes, others), add=False)
                right.append(eager.run(ids[text], True, (layer, put))[0][classes[text]])
            means.append(torch.stack(right).mean())
        best.append(layers[int(torch.stack(means).argmax())])
    chosen = rows.filter("chosen", vector="task", source="own").sort("example")
    assert chosen["layer"].to_list() == [best[1 - half[text]] for text in range(len(ids))]


def test_heads_are_those_of_the_greatest_mean_effects_on_the_other_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On half 0, heads 2.1 and 0.3 help most; on half 1, heads 1.0 and 2.2."""
    half, best = halves(), {0: [(2, 1), (0, 3)], 1: [(1, 0), (2, 2)]}
    effects = torch.full((2, 6, 3, 4), -0.5)
    for text in range(6):
        for layer, head in best[int(half[text])]:
            effects[0, text, layer, head] = 1.0
            effects[1, text, layer, (head + 1) % 4] = 9.0  # probabilities do not choose
    seen: list[tuple[torch.Tensor, ...]] = []

    def known(_: Any, tokens: Any, *given: Any) -> Tensor:
        seen.append(given)
        return effects[:, torch.tensor(tokens.examples)]

    monkeypatch.setattr(vectors, "effects_of_means", known)
    writes: list[tuple[list[tuple[int, int]], list[int], Tensor]] = []
    written, put = vectors._Run.written, vectors._Target.put

    def keep(run: Any, writing: Any, heads: Any) -> Tensor:
        writes.append((sorted(heads), run.tokens.examples, written(run, writing, heads)))
        return writes[-1][2]

    def check(target: Any, vector: str, layer: int, scored: bool) -> dict[str, Tensor]:
        of_sources = put(target, vector, layer, scored)
        of_halves, order = [write for _, _, write in writes[:2]], writes[0][1]
        classes = [text % 3 for text in order]
        for row, text in enumerate(order):
            from_half = 1 - half[text] if scored else half[text]
            allowed = [k for k, other in enumerate(order) if half[other] == from_half]
            states = list(of_halves[from_half])
            mean = plain_mean(states, classes, [k for k in allowed if k != row])
            torch.testing.assert_close(of_sources["without"][row], mean)
        checked.append(scored)
        return of_sources

    checked: list[bool] = []
    monkeypatch.setattr(vectors._Run, "written", keep)
    monkeypatch.setattr(vectors._Target, "put", check)
    found(tiny_model("llama"), {**SPEC, "kinds": ["function"], "heads": 2})
    assert [heads for heads, _, _ in writes[:2]] == [sorted(best[0]), sorted(best[1])]
    assert len(seen) == 1
    assert set(checked) == {True, False}


def test_random_vectors_are_as_long_as_the_task_s_own() -> None:
    lengths: dict[str, list[Tensor]] = {}
    put = vectors._Target.put

    def keep(target: Any, *given: Any) -> dict[str, Tensor]:
        vectors_put = put(target, *given)
        for source, of in vectors_put.items():
            lengths.setdefault(source, []).append(of.norm(dim=1))
        return vectors_put

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors._Target, "put", keep)
        rows, _ = found(tiny_model("llama"), {**SPEC, "kinds": ["task", "function"]})
    for own, drawn in zip(lengths["own"], lengths["random"], strict=True):
        torch.testing.assert_close(drawn, own)
    for vector in ("task", "function"):
        of = {source: probabilities(rows, vector, source, 0) for source in ("own", "random")}
        assert not torch.allclose(of["own"], of["random"], atol=1e-3)


def test_every_demonstration_gets_a_word_of_another_class_and_positions_stay() -> None:
    prompt = shared_prompts([5]).row(0, named=True)
    words = [prompt["token_ids"][at] for at in WORDS]
    for draw in range(5):
        changed = deranged_words(prompt, np.random.default_rng(draw))
        assert changed is not None
        after = [changed[k][0] for k in range(3)]
        assert sorted(after) == sorted(words)
        assert all(new != old for new, old in zip(after, words, strict=True))
    # Two of one class hold most of the words of their length, and stay.
    most = {**prompt, "demonstration_labels": [0, 0, 1]}
    assert deranged_words(most, np.random.default_rng(0)) is None
    # Words of one, three, and two tokens can't replace one another.
    wordy = wordy_prompts([5], "fixed").row(0, named=True)
    assert deranged_words(wordy, np.random.default_rng(0)) is None
    ids = with_words(prompt, prompt["token_ids"], {1: [96]})
    assert [k for k, (a, b) in enumerate(zip(ids, prompt["token_ids"], strict=True)) if a != b] == [
        18
    ]


def test_random_texts_leave_template_label_words_and_merged_tokens() -> None:
    prompt = {**shared_prompts([5]).row(0, named=True), "merged_positions": [3]}
    ids = with_random_texts(prompt, [0] * PREFIX, [1], np.random.default_rng(0))
    texts = {*range(1, 8), *range(11, 18), *range(21, 28)} - {3}
    assert {at for at, token in enumerate(ids) if token} == texts


def test_cosines_of_local_vectors_are_means_over_pairs() -> None:
    vectors_of = torch.tensor([[1.0, 0, 0], [0, 2, 0], [3, 3, 0]])
    others, to_task = cosines(vectors_of, torch.tensor([0, 0.5, 0]))
    root = 0.5**0.5
    assert others.tolist() == pytest.approx([root / 2, root / 2, root])
    assert to_task.tolist() == pytest.approx([0, 1, root])
    assert cosines(vectors_of[:1], vectors_of[0])[0].isnan().all()


def test_similarity_is_that_of_differences_from_random_texts() -> None:
    _, similarity = found(tiny_model("llama"), {**SPEC, "kinds": ["local"]})
    prompt = prompts().row(0, named=True)
    shared, eager = prompt["token_ids"][:PREFIX], Eager("llama")
    runs = [shared]
    for draw in (0, 1):
        random = generator(0, "news", "vectors", "random texts", draw)
        runs.append(with_random_texts(prompt, shared, range(VOCABULARY), random))
    own, center, again = (eager.run(ids)[1][0][list(WORDS)] for ids in runs)
    whole, without = (
        [eager.run(row, hide)[1][0][-1] for row in prompts()["token_ids"].to_list()]
        for hide in (False, True)
    )
    task = torch.stack(whole).mean(0) - torch.stack(without).mean(0)  # two texts of each class
    rows = similarity.filter(layer=0).sort("demonstration")
    for suffix, of in (("", own), ("_control", again)):
        expected = cosines(of - center, task)
        for name, values in zip(("similarity", "to_task"), expected, strict=True):
            assert rows[f"{name}{suffix}"].to_list() == pytest.approx(values.tolist(), abs=1e-4)


def test_fewer_demonstrations_are_the_last_ones() -> None:
    samples = pl.DataFrame(
        {
            "demonstrations": ["fixed", "per_example"],
            "demonstration_texts": [["a", "b", "c"]] * 2,
            "demonstration_labels": [[0, 1, 2]] * 2,
        }
    )
    (row,) = with_last_demonstrations(samples, 2).iter_rows(named=True)
    assert (row["demonstration_texts"], row["demonstration_labels"]) == (["b", "c"], [1, 2])


def test_prompts_with_fewer_demonstrations_are_answered_as_they_are() -> None:
    model, shorter = tiny_model("llama"), prompts().head(4)
    ids = [row[:1] + row[20:] for row in shorter["token_ids"].to_list()]
    fewer = shorter.with_columns(
        *(pl.col(name) - 19 for name in ("tokens", "target_position", "query_start")),
        pl.Series("token_ids", ids),
        label_positions=pl.Series([[9]] * 4),
        label_ends=pl.Series([[10]] * 4),
    )
    rows, _ = found(model, {**SPEC, "kinds": []}, fewer={1: fewer})
    assert set(rows["number"]) == {0, 1, ALL}
    eager = Eager("llama")
    plain = torch.stack([eager.run(row)[0] for row in ids])
    close(probabilities(rows.filter(number=1), "none", "none", NO_LAYER), plain)


def test_texts_without_another_one_of_their_class_are_left_out_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows, _ = found(tiny_model("llama"), {**SPEC, "kinds": ["task"]}, examples=[0, 1, 3])
    assert set(rows["example"]) == {0, 3}
    assert caplog.messages[0].startswith("Left out: 1 of 3 texts of task news, as no other text")
    rows, _ = found(tiny_model("llama"), {**SPEC, "kinds": ["task"]}, examples=[0, 1])
    assert set(rows["example"]) == {0, 1}
    assert set(rows["vector"]) == {"none"}


def test_no_undefined_vector_is_put_into_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[Tensor] = []
    with_targets = vectors.with_targets

    def keep(tokens: Any, output: Any, put: Tensor) -> Any:
        states.append(put)
        return with_targets(tokens, output, put)

    monkeypatch.setattr(vectors, "with_targets", keep)
    found(tiny_model("llama"), {**SPEC, "kinds": ["task"]}, examples=[0, 3])
    assert torch.cat(states).isfinite().all()


def test_without_enough_texts_or_words_there_are_fewer_vectors_and_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, spec = tiny_model("llama"), {**SPEC, "kinds": ["task", "function"]}
    rows, _ = found(model, spec, examples=[0])
    assert set(rows["vector"]) == {"none"}
    caplog.clear()
    rows, _ = found(model, spec, examples=[0, 3])  # of one class
    assert set(rows["vector"]) == {"none", "task"}
    assert not rows["chosen"].any()
    assert caplog.messages[0].startswith("No function vectors: either half of the texts needs two")
    rows, similarity = found(model, SPEC, examples=[])
    assert rows.is_empty()
    assert similarity.is_empty()


def test_label_words_that_prompts_do_not_share_are_refused() -> None:
    ids = prompts()["token_ids"].to_list()
    ids[1][20] = (ids[1][20] + 1) % 97
    table = prompts().with_columns(pl.Series("token_ids", ids))
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_vectors(tiny_model("llama"), table, {**SPEC, "kinds": ["local"]}, range(9), 60)
