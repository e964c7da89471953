"""What every method keeps: written out where it can be, and within its budget everywhere."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from anchorflow.analyses.compression import methods as compression_methods
from anchorflow.analyses.compression.measure import (
    FIRST_ONLY,
    FULL,
    Cache,
    Setting,
    compress,
    settings_of,
)
from anchorflow.analyses.compression.methods import FOLDER, Demonstrations, method
from anchorflow.analyses.compression.methods._whole_demonstrations import similarity
from anchorflow.analyses.compression.observations import observe
from anchorflow.analyses.compression.styles import LOOKS, with_defaults
from anchorflow.config import registry
from anchorflow.config.configuration import complete_configuration, read_schema
from anchorflow.config.errors import InputError
from anchorflow.kept_positions import AT_ANY_BUDGET, METHODS
from anchorflow.model.attention_function import PADDING, LayerPrefix
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.prepare.template import Template, build_prompt
from tiny_models import FAMILIES, PREFIX, methods_of, shared_prompts, tiny_model
from tools.document import SCHEMA_FILE

REVIEWS = [("It drags on", " Negative"), ("Warm and clever", " Positive")]
TOKENS = [
    *("Review", ":", " It", " drags", " on", "\n", "Sentiment", ":", " Negative", "\n"),
    *("Review", ":", " Warm", " and", " clever", "\n", "Sentiment", ":", " Positive", "\n"),
]
ANCHORS = [0, 1, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18, 19]


class Words:
    """One token per word, blank included, and per sign."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]"))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Split(
            Regex(r" ?[A-Za-z]+|.|\n"), behavior="isolated"
        )

    def get_added_tokens_decoder(self) -> dict[int, object]:
        return {}

    def encode(self, text: str, /) -> object:
        return self._tokenizer.encode(text)


def worked_example() -> Demonstrations:
    """Two reviews with random keys, values and attention."""
    template = Template.parse("Review: {text}\nSentiment:{label}")
    prompt = build_prompt(Words(), template, REVIEWS, "Dull")
    assert prompt.query_start == len(TOKENS)
    random = torch.Generator().manual_seed(0)
    shape = (1, 2, len(TOKENS), 4)
    layers = {
        n: LayerPrefix(torch.randn(shape, generator=random), torch.randn(shape, generator=random))
        for n in range(3)
    }
    observed = {n: torch.rand(4, 20, 20, generator=random).softmax(-1) for n in range(3)}
    row = {**vars(prompt), "seed": 0, "task": "reviews"}
    return Demonstrations(row, Prefix(len(TOKENS), layers), observed)


def kept(shown: Demonstrations, name: str, budget: int = 14, draw: int = 0) -> list[int]:
    """The positions of a method that keeps the same everywhere."""
    layers = method(name)(shown, budget, draw)
    first = layers[0]
    assert first.shape[0] == 1
    assert all(torch.equal(positions, first) for positions in layers.values())
    return first[0].tolist()


def test_the_anchors_of_a_worked_example_token_by_token() -> None:
    shown = worked_example()
    anchors = kept(shown, "hidden_anchor")
    assert anchors == ANCHORS
    assert [TOKENS[p] for p in anchors] == [
        *("Review", ":", "\n", "Sentiment", ":", " Negative", "\n"),
        *("Review", ":", "\n", "Sentiment", ":", " Positive", "\n"),
    ]
    assert [TOKENS[p] for p in kept(shown, "label_only")] == [" Negative", " Positive"]
    assert kept(shown, "format_only") == [p for p in ANCHORS if p not in (8, 18)]
    assert kept(shown, "full") == list(range(20))
    assert kept(shown, "recent") == list(range(6, 20))
    assert kept(shown, "attention_sink") == [0, 1, 2, 3, *range(10, 20)]
    assert kept(shown, "attention_sink", budget=3) == [0, 1, 2]
    assert kept(shown, "even", budget=3) == [0, 10, 19]
    assert kept(shown, "even", budget=1) == [0]


def test_all_tokens_of_label_words_are_anchors_and_none_stands_in_for_them() -> None:
    shown = worked_example()
    wordy = {**shown.prompt, "label_positions": [6, 17]}  # label words 6, 7, 8 and 17, 18
    wordy["format_positions"] = [p for p in wordy["format_positions"] if p not in (6, 7, 17)]
    longer = replace(shown, prompt=wordy)
    assert kept(longer, "hidden_anchor") == ANCHORS
    assert kept(longer, "label_only") == [6, 7, 8, 17, 18]
    formats = [0, 1, 5, 9, 10, 11, 15, 16, 19]
    assert kept(longer, "format_only") == formats
    random = [kept(longer, "hidden_random", draw=draw) for draw in range(20)]
    for positions in random:
        assert positions == sorted({*positions})
        assert len(positions) == len(ANCHORS)
        assert {*formats} < {*positions}
        assert {*positions} - {*formats} <= {2, 3, 4, 12, 13, 14}  # the texts
    assert len(set(map(tuple, random))) > 4


def test_key_norm_keeps_the_shortest_keys_of_every_head() -> None:
    shown = worked_example()
    for layer, positions in method("key_norm")(shown, 5, 0).items():
        norms = shown.prefix.layers[layer].key[0].norm(dim=-1)  # [G, P]
        for head in range(2):
            expected = sorted(sorted(range(20), key=lambda p: float(norms[head, p]))[:5])
            assert positions[head].tolist() == expected


def test_key_diff_drops_keys_that_point_where_most_do() -> None:
    shown = worked_example()
    key = torch.tensor([1.0, 0, 0, 0]).repeat(1, 2, 20, 1) * torch.arange(1, 21)[:, None]
    key[:, 0, 3] = torch.tensor([0, 5.0, 0, 0])
    key[:, 1, 11] = torch.tensor([0, 0, -0.1, 0])
    layers = {n: LayerPrefix(key, layer.value) for n, layer in shown.prefix.layers.items()}
    alike = Demonstrations(shown.prompt, Prefix(20, layers), shown.observed)
    for positions in method("key_diff")(alike, 1, 0).values():
        assert positions.tolist() == [[3], [11]]


def test_tova_keeps_what_the_last_token_attends_to_over_all_heads() -> None:
    shown = worked_example()
    for layer, positions in method("tova")(shown, 4, 0).items():
        mean = shown.observed[layer][:, -1].mean(0)
        expected = sorted(sorted(range(20), key=lambda p: -float(mean[p]))[:4])
        assert positions.tolist() == [expected]


def test_snapkv_keeps_its_window_and_what_it_attends_to() -> None:
    shown = worked_example()
    for layer, positions in method("snapkv")(shown, 8, 0).items():
        for head in range(2):
            rows = shown.observed[layer][2 * head : 2 * head + 2, -2:, :18]
            votes = rows.sum(1).mean(0)
            pooled = [float(votes[max(0, p - 2) : p + 3].sum()) / 5 for p in range(18)]
            expected = sorted(sorted(range(18), key=lambda p: -pooled[p])[:6])
            assert positions[head].tolist() == [*expected, 18, 19]


def scored(*scores: list[list[float]]) -> Demonstrations:
    """The attention that repeating gives to keys, [G][P] in each layer."""
    shown = zeros(len(scores), len(scores[0][0]))
    return replace(shown, repeated={n: torch.tensor(of) for n, of in enumerate(scores)})


def test_kvzip_shares_its_budget_among_layers_and_heads() -> None:
    first = [0.0] * 4  # which are kept whatever they get
    shown = scored(
        [[*first, 0.9, 0.8, 0.7], [*first, 0.1, 0.2, 0.6]],
        [[*first, 0.05, 0.04, 0.03], [*first, 0.5, 0.0, 0.4]],
    )
    # Of 28 keys 20, of which 16 are the first four.
    chosen = {n: at.tolist() for n, at in method("kvzip")(shown, 5, 0).items()}
    no = PADDING
    assert chosen == {
        0: [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 6, no, no]],
        1: [[0, 1, 2, 3], [0, 1, 2, 3]],
    }
    uniform = {n: at.tolist() for n, at in method("kvzip_uniform")(shown, 5, 0).items()}
    assert uniform == {0: [[0, 1, 2, 3, 4], [0, 1, 2, 3, 6]], 1: [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]}
    assert Cache(shown.prefix.keep(method("kvzip")(shown, 5, 0)), 7).kept == 5
    assert [at.tolist() for at in method("kvzip")(shown, 2, 0).values()] == [[[0, 1]] * 2] * 2


def test_the_norm_of_what_is_written_weighs_attention() -> None:
    shown = worked_example()
    written = {n: torch.linspace(1, 2 + n, 80).view(4, 20) for n in range(3)}
    weighed = replace(shown, written=written)
    for layer in range(3):
        heavy = shown.observed[layer][:, -1] * written[layer]
        best = sorted(sorted(range(20), key=lambda p: -float(heavy[:, p].mean()))[:4])
        assert method("tova_by_value")(weighed, 4, 0)[layer].tolist() == [best]
        for head in range(2):
            rows = shown.observed[layer][2 * head : 2 * head + 2, -2:, :18]
            votes = (rows * written[layer][2 * head : 2 * head + 2, None, :18]).sum(1).mean(0)
            pooled = [float(votes[max(0, p - 2) : p + 3].sum()) / 5 for p in range(18)]
            expected = sorted(sorted(range(18), key=lambda p: -pooled[p])[:6])
            chosen = method("snapkv_by_value")(weighed, 8, 0)[layer][head].tolist()
            assert chosen == [*expected, 18, 19]


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (8, [14, 8, 2]),  # a window of 2, and 6 on average: 11.7, 6, and 0.3 by rounded sums
        (14, [20, 14, 8]),  # a window of 3: the first layer keeps everything, the last what is left
        (20, [20, 20, 20]),
    ],
)
def test_the_budget_of_a_pyramid_falls_linearly_with_depth(budget: int, kept: list[int]) -> None:
    chosen = method("pyramidkv")(worked_example(), budget, 0)
    assert [at.shape[1] for at in chosen.values()] == kept
    assert sum(kept) == 3 * budget


def four(*labels: int) -> Demonstrations:
    """Demonstrations of 4, 5, 6, and 5 tokens after BOS, and a query; their texts are in between.

    Each ends in its label word and a separator, and begins with its text.
    """
    starts, ends = [1, 5, 10, 16], [5, 10, 16, 21]
    tokens = [99, *(7, 8, 50, 60), *(7, 9, 10, 51, 60), *(11, 11, 11, 12, 50, 60)]
    tokens += [*(8, 9, 13, 51, 60), *(9, 10, 70)]
    prompt = {
        **{"seed": 0, "task": "news", "token_ids": tokens, "instruction_end": None},
        **{"demonstration_starts": starts, "demonstration_ends": ends},
        **{"label_positions": [end - 2 for end in ends], "label_ends": [end - 1 for end in ends]},
        **{"format_positions": [0, *(end - 1 for end in ends), 23], "query_start": 21},
        **{"target_position": 23, "demonstration_labels": list(labels)},
    }
    return replace(zeros(2, 21), prompt=prompt)


def which(shown: Demonstrations, positions: list[int]) -> list[int]:
    """The whole demonstrations that these positions are, besides what precedes them."""
    starts, ends = (shown.prompt[f"demonstration_{side}"] for side in ("starts", "ends"))
    found = [k for k in range(len(starts)) if starts[k] in positions]
    assert positions in ([], [0, *(t for k in found for t in range(starts[k], ends[k]))])
    return found


def test_as_many_demonstrations_as_fit_are_kept_whole_or_none() -> None:
    shown = four(0, 0, 0, 1)
    for name in ("hidden_fewer_random", "text_fewer_random"):
        draws = [which(shown, kept(shown, name, 12, draw)) for draw in range(20)]
        assert all(len(chosen) == 2 for chosen in draws)  # of 11 tokens after the first
        assert len(set(map(tuple, draws))) > 3
        assert which(shown, kept(shown, name, 21)) == [0, 1, 2, 3]
        assert kept(shown, name, 4) == []  # the shortest has 4, and what precedes it 1
        assert which(shown, kept(shown, name, 5, 3)) == [0]  # however it is drawn


def test_labels_are_as_balanced_as_budgets_allow() -> None:
    shown = four(0, 0, 0, 1)
    for draw in range(10):
        chosen = which(shown, kept(shown, "text_fewer_balanced", 12, draw))
        assert len(chosen) == 2
        assert 3 in chosen  # the only one of its label
    for draw in range(10):  # 16 tokens: one of each label first
        chosen = which(four(0, 1, 0, 1), kept(four(0, 1, 0, 1), "hidden_fewer_balanced", 12, draw))
        assert sorted(k % 2 for k in chosen) == [0, 1]


def test_without_what_precedes_demonstrations_the_first_token_of_the_whole_prompt_stays() -> None:
    """Attention goes to it, in keys that were computed with it; a text has a first of its own."""
    shown = four(0, 0, 1, 1)
    shown = replace(shown, prompt={**shown.prompt, "demonstration_starts": [0, 5, 10, 16]})
    for draw in range(10):
        assert kept(shown, "hidden_fewer_random", 5, draw) == [*range(5)]
        assert len(kept(shown, "text_fewer_random", 5, draw)) == 5
        six = kept(shown, "hidden_fewer_balanced", 6, draw)
        assert six in ([*range(5)], [0, *range(5, 10)], [0, *range(16, 21)])
    assert kept(shown, "hidden_fewer_nearest", 6) == [0, *range(5, 10)]
    assert kept(shown, "text_fewer_nearest", 6) == [*range(5, 10)]
    assert kept(shown, "hidden_fewer_random", 21) == [*range(21)]


def test_the_nearest_demonstrations_share_rare_tokens_with_the_query() -> None:
    """The query's 9 is in texts 1 and 3, and its 10 in text 1 alone; of 9 texts, 7 counts twice."""
    shown = four(0, 0, 0, 1)
    scores = similarity(shown)
    assert scores[0] == scores[2] == 0
    assert scores[1] > scores[3] > 0
    # By hand: 4 texts of 2, 3, 4, and 3 tokens; 9 is in two of them, and 10 in one.
    length = 1.5 * (0.25 + 0.75 * 3 / 3)
    nine, ten = math.log(1 + 2.5 / 2.5), math.log(1 + 3.5 / 1.5)
    assert scores[1] == pytest.approx((nine + ten) * 2.5 / (1 + length))
    assert scores[3] == pytest.approx(nine * 2.5 / (1 + length))
    assert which(shown, kept(shown, "text_fewer_nearest", 12)) == [1, 3]
    assert which(shown, kept(shown, "hidden_fewer_nearest", 8)) == [1]
    other = replace(shown, prompt={**shown.prompt, "token_ids": [*shown.prompt["token_ids"]]})
    other.prompt["token_ids"][21:23] = [11, 12]
    assert which(other, kept(other, "text_fewer_nearest", 8)) == [2]


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_everything_kept_is_everything_bit_by_bit(family: str) -> None:
    table = shared_prompts([5])
    model = tiny_model(family)
    ids, names = shared_token_ids(table), [n for n in AT_ANY_BUDGET if "text" not in n]
    shown = observe(model, ids, table.row(0, named=True), names)
    for name in names:
        cache = compress(model, shown, Setting(name, 1.0))
        assert cache.kept == PREFIX
        assert cache.prefix is shown.prefix


def zeros(layers: int, tokens: int) -> Demonstrations:
    kept = LayerPrefix(torch.zeros(1, 2, tokens, 4), torch.zeros(1, 2, tokens, 4))
    return Demonstrations({}, Prefix(tokens, dict.fromkeys(range(layers), kept)), {})


@pytest.mark.parametrize(
    ("budget", "whole"), [(1, 0), (3, 0), (4, 1), (6, 2), (9, 3), (10, 4), (12, 4)]
)
def test_the_first_layers_are_as_many_as_the_budget_pays_for(budget: int, whole: int) -> None:
    # Of 10 tokens in 4 layers: each layer that keeps everything takes 9 of 4 · (budget - 1) more.
    kept = method("until_layer")(zeros(4, 10), budget, 0)
    everything, first = list(range(10)), [0]
    assert [kept[layer][0].tolist() for layer in range(4)] == [
        everything if layer < whole else first for layer in range(4)
    ]
    assert sum(each.shape[1] for each in kept.values()) <= 4 * budget


def test_what_a_cache_keeps_is_the_mean_over_layers_that_differ() -> None:
    demonstrations = zeros(4, 10)
    cache = Cache(demonstrations.prefix.keep(method("until_layer")(demonstrations, 6, 0)), 10)
    assert cache.kept == 6  # of 10, 10, 1, and 1: 5.5, rounded up
    assert cache.prefix.bytes == 4 * 2 * 2 * 4 * (10 + 10 + 1 + 1)


def test_a_single_token_is_kept_everywhere() -> None:
    kept = method("until_layer")(zeros(2, 1), 1, 0)
    assert [each.tolist() for each in kept.values()] == [[[0]], [[0]]]


@pytest.mark.parametrize("name", registry.entries(FOLDER))
def test_every_method_says_what_it_keeps_and_whether_it_can_keep_any_number(name: str) -> None:
    assert registry.summary_of(FOLDER, name).endswith(".")
    assert isinstance(registry.declared(FOLDER, name, "ANY_BUDGET"), bool)


def test_every_method_can_be_chosen_and_has_a_look_of_its_own_in_figures() -> None:
    section = read_schema(SCHEMA_FILE)["properties"]["compression"]["properties"]
    assert set(section["methods"]["items"]["enum"]) == {*METHODS} - {"full"}
    assert {*METHODS} <= set(LOOKS)
    assert len({look[1:] for look in LOOKS.values()}) == len(LOOKS)
    assert {look.marker for look in LOOKS.values()}.isdisjoint("xX")  # none is a cross


def test_methods_without_a_look_get_one_that_no_other_has() -> None:
    new = [f"new_method_{number}" for number in range(20)]
    looks = with_defaults(LOOKS, [*METHODS, *new])
    assert list(looks) == [*LOOKS, *new]
    assert len({look[1:] for look in looks.values()}) == len(looks)
    assert looks["new_method_3"].name == "new method 3"
    assert with_defaults(LOOKS, [*METHODS, *new]) == looks


EVERY_OTHER = '''"""Every other token,
the first among them.

Made up for this test.
"""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = False


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(shown, list(range(0, shown.prefix.tokens, 2)))
'''


def test_a_file_is_all_that_a_new_method_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "anchorflow"
    shutil.copytree(registry.PACKAGE / "analyses", package / "analyses")
    (package / FOLDER / "every_other.py").write_text(EVERY_OTHER, encoding="utf-8")
    config = {
        "models": {"m": {"source": "hub", "repository": "openai/m", "revision": "0" * 40}},
        "tasks": {
            "reviews": {
                "source": "builtin",
                "corpus": "reviews",
                "template": "Review: {text}\nSentiment:{label}",
                "labels": [" Negative", " Positive"],
            }
        },
        "compression": {"methods": ["hidden_anchor", "every_other"]},
    }
    with pytest.raises(InputError, match="'every_other' is not one of"):
        complete_configuration(config, SCHEMA_FILE)
    monkeypatch.setattr(registry, "PACKAGE", package)
    complete_configuration(config, SCHEMA_FILE)
    assert config["compression"]["methods"] == ["hidden_anchor", "every_other"]
    methods = read_schema(SCHEMA_FILE)["properties"]["compression"]["properties"]["methods"]
    assert "every_other: Every other token, the first among them. e" in methods["description"]
    assert "every_other" not in methods["default"]
    assert settings_of(["every_other"], [0.5], 2) == [FULL, FIRST_ONLY, Setting("every_other")]
    folders = [*compression_methods.__path__, str(package / FOLDER)]
    monkeypatch.setattr(compression_methods, "__path__", folders)
    assert kept(worked_example(), "every_other") == list(range(0, 20, 2))


def test_only_random_methods_are_drawn_again_and_only_some_take_a_share() -> None:
    assert settings_of(["text_anchor", "hidden_random", "recent"], [0.5], 2) == [
        FULL,
        FIRST_ONLY,
        Setting("text_anchor"),
        Setting("hidden_random", draw=0),
        Setting("hidden_random", draw=1),
        Setting("recent"),
        Setting("recent", 0.5),
    ]
    assert "snapkv" in AT_ANY_BUDGET
    assert "hidden_anchor" not in AT_ANY_BUDGET


@pytest.mark.parametrize("family", FAMILIES)
def test_no_method_exceeds_its_budget_or_repeats_a_position(family: str) -> None:
    table = shared_prompts([5, 17])
    names = methods_of(family)
    shown = observe(tiny_model(family), shared_token_ids(table), table.row(0, named=True), names)
    anchors = len(shown.anchors())
    budgets = {name: (1, 2, 5, 14, 30, 45) if name in AT_ANY_BUDGET else (11,) for name in names}
    for name, budget in [(name, budget) for name, of in budgets.items() for budget in of]:
        layers = method(name)(shown, budget, 0)
        assert sorted(layers) == sorted(shown.prefix.layers)
        most = PREFIX if name == "full" else budget if name in AT_ANY_BUDGET else anchors
        rows = [row[row < PADDING] for at in layers.values() for row in at]
        kept = [len(row) for row in rows]
        assert sum(kept) <= most * len(kept)
        if name in ("kvzip", "pyramidkv"):  # of all layers together, and of all heads
            assert sum(kept) == min(budget, PREFIX) * len(kept)
        elif name in AT_ANY_BUDGET and not (name == "until_layer" or "fewer" in name):
            assert set(kept) == {min(budget, PREFIX)}
        for row in rows:
            assert (row.diff() > 0).all()
            assert row.tolist() == [] or 0 <= int(row[0]) <= int(row[-1]) < PREFIX


def test_keys_and_values_are_those_of_the_kept_positions() -> None:
    table = shared_prompts([5, 17])
    model = tiny_model("llama")
    prefix = compute_prefix(model, shared_token_ids(table))
    by_head = {n: torch.tensor([[1, 4], [0, 29]]) for n in prefix.layers}
    some = prefix.keep(by_head)
    assert some.tokens == PREFIX
    for number, layer in some.layers.items():
        whole = prefix.layers[number]
        assert layer.tokens == 2
        torch.testing.assert_close(layer.key[0, 0], whole.key[0, 0, [1, 4]])
        torch.testing.assert_close(layer.value[0, 1], whole.value[0, 1, [0, 29]])
    assert some.bytes == prefix.bytes * 2 // PREFIX
    with pytest.raises(ValueError, match="different positions"):
        some.keys_of(torch.tensor([1]))
    alike = prefix.keep({n: torch.tensor([[1, 4, 9]]) for n in prefix.layers})
    assert alike.keys_of(torch.tensor([9, 1, PREFIX + 2])).tolist() == [2, 0, 5]
    with pytest.raises(ValueError, match="was not kept"):
        alike.keys_of(torch.tensor([5]))
