"""Positions, kinds of tokens, and classes of edges, of prompts written out by hand."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.analyses.knockout.measure import as_heavy
from anchorflow.prepare.positions import (
    CLASSES,
    KINDS,
    NEAREST,
    SOURCES,
    edges_of,
    kinds_of,
    matched_edges,
    matched_positions,
    random_ranks,
    sources_of,
)
from constructed.wordy import bare_prompt, wordy_prompts
from worded_prompts import with_instruction

# Three demonstrations, "start text : label separator", then the query, whose last token is the
# target: 0 1 2 3 (4) 5 | 6 7 8 9 10 (11 12 13) 14 | 15 16-19 20 (21 22) 23 | 24 25 [26].
PROMPT = wordy_prompts([3], "fixed").row(0, named=True)
RANDOM = np.random.default_rng


def drawn(prompt: dict[str, Any], seed: int = 0) -> list[int]:
    positions = matched_positions(prompt, "text", RANDOM(seed))
    assert positions is not None
    return positions


def test_neighbors_are_the_tokens_right_beside_each_label_word() -> None:
    assert matched_positions(PROMPT, "before") == [3, 10, 20]
    assert matched_positions(PROMPT, "after") == [5, 14, 23]


@pytest.mark.parametrize(
    ("which", "changes"),
    [
        ("after", {"target_position": 7}),  # the target itself
        ("after", {"label_positions": [3, 4], "label_ends": [4, 5]}),  # the next label word
        ("before", {"label_positions": [3, 4], "label_ends": [4, 5]}),  # the one before
        ("before", {"label_positions": [1, 6], "label_ends": [4, 7]}),  # the first token
        ("text", {"format_positions": [0, 1, 2, 5]}),  # a demonstration without text
    ],
)
def test_prompts_without_such_a_token_have_no_matched_positions(
    which: str, changes: dict[str, Any]
) -> None:
    assert matched_positions(bare_prompt(), which, RANDOM(0)) is not None
    assert matched_positions(bare_prompt() | changes, which, RANDOM(0)) is None


def test_as_many_text_tokens_are_drawn_as_the_label_word_has_if_there_are_so_many() -> None:
    # Texts at 1-2, 7-9 and 16-19; label words of one, three and two tokens.
    texts, seen = ([1, 2], [7, 8, 9], [16, 17, 18, 19]), set()
    for seed in range(50):
        positions = drawn(PROMPT, seed)
        assert positions == sorted(set(positions))
        assert [sum(t in text for t in positions) for text in texts] == [1, 3, 2]
        seen |= set(positions)
    assert seen == {*TEXTS}
    longer = {**PROMPT, "label_ends": [13, *PROMPT["label_ends"][1:]]}
    assert [t for t in drawn(longer) if t < 7] == [1, 2]


def test_the_draw_does_not_depend_on_the_label_words() -> None:
    single = {**PROMPT, "label_ends": [label + 1 for label in PROMPT["label_positions"]]}
    for seed in range(10):
        assert len(drawn(single, seed)) == 3
        assert {*drawn(single, seed)} <= {*drawn(PROMPT, seed)}


def test_the_instruction_is_a_kind_and_a_source_of_its_own() -> None:
    (prompt,) = with_instruction(
        pl.DataFrame([bare_prompt()], schema_overrides={"instruction_end": pl.Int32}), 2
    ).to_dicts()
    # first | instruction (2) separator | text : label | text : label | query target
    kinds = kinds_of(prompt)
    assert [KINDS[kind] for kind in kinds[:11]] == [
        *("first", "instruction", "instruction", "template"),
        *("text", "template", "label", "text", "template", "label", "query"),
    ]
    second = [SOURCES[source] for source in sources_of(prompt, kinds)[1][:9]]
    assert second == [
        *("first", "instruction", "instruction", "rest"),
        *("rest", "rest", "labels", "text", "template"),
    ]
    assert all(drawn(prompt, seed) == [4, 7] for seed in range(5))


def test_every_token_has_one_kind_and_the_target_has_none() -> None:
    kinds = [KINDS[kind] for kind in kinds_of(bare_prompt())[:8]]
    shown = ["text", "template", "label", "text", "template", "label"]
    assert kinds == ["first", *shown, "query"]
    assert kinds_of(bare_prompt())[8] not in range(len(KINDS))


def test_the_first_token_is_nothing_else_where_there_is_no_special_one() -> None:
    assert PROMPT["demonstration_starts"][0] == 0
    textual = {**PROMPT, "format_positions": PROMPT["format_positions"][1:]}
    assert [KINDS[kinds_of(prompt)[0]] for prompt in (PROMPT, textual)] == ["first"] * 2
    assert all(0 not in drawn(textual, seed) for seed in range(30))


def test_a_label_word_s_sources_are_its_own_demonstration_and_the_rest() -> None:
    prompt = bare_prompt() | {"label_ends": [4, 8], "query_start": 8, "tokens": 10}
    prompt |= {"target_position": 9, "demonstration_ends": [4, 8]}
    first, second, third = (
        [SOURCES[source] for source in of[:6]] for of in sources_of(prompt, kinds_of(prompt))
    )
    assert first[:3] == ["first", "text", "template"]
    assert second == third == ["first", "rest", "rest", "labels", "text", "template"]
    # The first token of the second label word is a source of its second one.
    assert SOURCES[sources_of(prompt, kinds_of(prompt))[2][6]] == "labels"


def each(rows: tuple[int, ...], keys: list[int]) -> dict[int, list[int]]:
    """The same keys for several rows."""
    return dict.fromkeys(rows, keys)


# By the row of each edge, its keys.
LABELS, TEXTS = [4, 11, 12, 13, 21, 22], [1, 2, 7, 8, 9, 16, 17, 18, 19]
SECOND, THIRD, TEXT = (11, 12, 13), (21, 22), (16, 17, 18, 19)
EDGES = {
    "text_to_label": {4: [1, 2], **each(SECOND, [7, 8, 9]), **each(THIRD, [*TEXT])},
    "template_to_label": {4: [3], **each(SECOND, [6, 10]), **each(THIRD, [15, 20])},
    "label_to_label": {**each(SECOND, [4]), **each(THIRD, [4, *SECOND])},
    "label_to_target": {26: LABELS},
    "text_to_target": {26: TEXTS},
    "template_to_target": {26: [3, 5, 6, 10, 14, 15, 20, 23]},
    "demonstrations_to_query": each((24, 25), [*range(1, 24)]),
    "demonstrations_to_text": {**each((7, 8, 9), [1, 2, 3, 4, 5]), **each(TEXT, [*range(1, 15)])},
    "first_to_all": each((*range(1, 27),), [0]),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_each_class_are_as_written_out_by_hand(name: str) -> None:
    edges = edges_of(PROMPT, name)
    rows = np.flatnonzero(edges.any(1)).tolist()
    assert {row: np.flatnonzero(edges[row]).tolist() for row in rows} == EDGES[name]


def test_the_three_flows_of_the_paper_share_all_pairs() -> None:
    flows = [edges_of(PROMPT, name) for name in ("before_to_label", "label_to_target", "others")]
    assert (np.sum(flows, 0) == np.tri(27, k=-1)).all()
    assert flows[0].sum() == 4 + 11 + 12 + 13 + 21 + 22


def test_nothing_after_the_target_has_edges() -> None:
    prompt = {**PROMPT, "target_position": 25}
    for name in CLASSES:
        assert not edges_of(prompt, name)[26].any(), name


@pytest.mark.parametrize("name", ["label_to_target", "text_to_label", "demonstrations_to_query"])
def test_random_edges_are_other_ones_of_the_same_rows_and_new_in_every_draw(name: str) -> None:
    edges = edges_of(PROMPT, name)
    draws = [matched_edges(edges, RANDOM(draw)) for draw in range(8)]
    earlier = np.tri(27, k=-1, dtype=bool)
    for drawn in draws:
        assert not (drawn & edges).any()
        assert not (drawn & ~earlier).any()
        assert not drawn[:, 0].any()
        left = (earlier & ~edges)[:, 1:].sum(1)
        assert (drawn.sum(1) == np.minimum(edges.sum(1), left)).all()
    assert len({drawn.tobytes() for drawn in draws}) > (name != "demonstrations_to_query")


def test_random_edges_are_about_as_long() -> None:
    edges = np.zeros((1, 101), bool)
    edges[0, 50] = True
    drawn = {int(matched_edges(edges, RANDOM(n)).argmax()) for n in range(50)}
    assert drawn == {48, 49, 51, 52}
    assert len(drawn) == NEAREST


def test_random_edges_of_the_last_rows_count_keys_from_the_prompt_s_first_token() -> None:
    edges = edges_of(PROMPT, "label_to_target")
    drawn = matched_edges(edges[24:], RANDOM(3))
    assert (matched_edges(edges, RANDOM(3))[24:] == drawn).all()


def test_every_other_earlier_key_but_the_first_of_a_row_with_edges_has_a_rank() -> None:
    edges = edges_of(PROMPT, "label_to_target")
    ranks = random_ranks(edges[24:], RANDOM(0))
    others = [key for key in range(1, 26) if key not in LABELS]
    assert np.flatnonzero(ranks[2]).tolist() == others
    assert sorted(ranks[2][others]) == list(range(1, len(others) + 1))
    assert not ranks[:2].any()
    assert (random_ranks(edges[24:], RANDOM(1)) != ranks).any()


def test_keys_of_equal_attention_hold_about_as_much_although_the_first_token_holds_most() -> None:
    """Were the first token in the order, cutting would end at its place."""
    edges = edges_of(PROMPT, "label_to_target")[26:]
    random = RANDOM(0)
    attention = random.dirichlet(np.full(27, 3.0))
    attention[0] += attention[1:].sum()  # half of the attention
    weights = torch.from_numpy(attention / attention.sum()).expand(1, 1, 1, -1)
    wanted = weights[0, 0, 0][torch.from_numpy(edges[0])].sum()
    held = []
    for draw in range(40):
        ranks = torch.from_numpy(random_ranks(edges, RANDOM(draw)))
        taken = as_heavy(weights, torch.from_numpy(edges)[None], ranks[None])
        held.append(weights[0, 0, 0][taken[0, 0]].sum())
    assert np.mean(held) == pytest.approx(float(wanted), rel=0.05)
