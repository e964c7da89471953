"""Classes of edges of a prompt written out by hand, and the random ones in their place."""

import numpy as np
import pytest
import torch

from anchorflow.analyses.knockout.measure import as_heavy
from anchorflow.prepare.positions import CLASSES, NEAREST, edges_of, matched_edges, random_ranks
from constructed.wordy import wordy_prompts

# Three demonstrations, "start text : label separator", then the query, whose last token is the
# target: 0 1 2 3 (4) 5 | 6 7 8 9 10 (11 12 13) 14 | 15 16-19 20 (21 22) 23 | 24 25 [26].
PROMPT = wordy_prompts([3], "fixed").row(0, named=True)


def each(rows: tuple[int, ...], keys: list[int]) -> dict[int, list[int]]:
    """The same keys for several rows."""
    return dict.fromkeys(rows, keys)


def pairs(name: str) -> dict[int, list[int]]:
    """Keys of every row that has some."""
    edges = edges_of(PROMPT, name)
    return {int(row): np.flatnonzero(edges[row]).tolist() for row in np.flatnonzero(edges.any(1))}


def test_edges_into_label_words_come_from_their_own_demonstration_or_earlier_label_words() -> None:
    assert pairs("text_to_label") == {
        4: [1, 2],
        **each((11, 12, 13), [7, 8, 9]),
        **each((21, 22), [16, 17, 18, 19]),
    }
    assert pairs("template_to_label") == {
        4: [3],
        **each((11, 12, 13), [6, 10]),
        **each((21, 22), [15, 20]),
    }
    assert pairs("label_to_label") == {**each((11, 12, 13), [4]), **each((21, 22), [4, 11, 12, 13])}


def test_edges_into_the_target_and_the_query_come_from_the_demonstrations() -> None:
    labels, texts = [4, 11, 12, 13, 21, 22], [1, 2, 7, 8, 9, 16, 17, 18, 19]
    templates = [3, 5, 6, 10, 14, 15, 20, 23]
    assert pairs("label_to_target") == {26: labels}
    assert pairs("text_to_target") == {26: texts}
    assert pairs("template_to_target") == {26: templates}
    assert pairs("demonstrations_to_query") == each((24, 25), list(range(1, 24)))


def test_later_texts_see_earlier_demonstrations_and_everything_sees_the_first_token() -> None:
    assert pairs("demonstrations_to_text") == {
        **each((7, 8, 9), [1, 2, 3, 4, 5]),
        **each((16, 17, 18, 19), list(range(1, 15))),
    }
    assert pairs("first_to_all") == {row: [0] for row in range(1, 27)}


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
    draws = [matched_edges(edges, np.random.default_rng(draw)) for draw in range(8)]
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
    drawn = {int(matched_edges(edges, np.random.default_rng(n)).argmax()) for n in range(50)}
    assert drawn == {48, 49, 51, 52}
    assert len(drawn) == NEAREST


def test_random_edges_of_the_last_rows_count_keys_from_the_prompt_s_first_token() -> None:
    edges = edges_of(PROMPT, "label_to_target")
    drawn = matched_edges(edges[24:], np.random.default_rng(3))
    assert (matched_edges(edges, np.random.default_rng(3))[24:] == drawn).all()


def test_every_other_earlier_key_but_the_first_of_a_row_with_edges_has_a_rank() -> None:
    edges = edges_of(PROMPT, "label_to_target")
    ranks = random_ranks(edges[24:], np.random.default_rng(0))
    others = [key for key in range(1, 26) if key not in (4, 11, 12, 13, 21, 22)]
    assert np.flatnonzero(ranks[2]).tolist() == others
    assert sorted(ranks[2][others]) == list(range(1, len(others) + 1))
    assert not ranks[:2].any()
    assert (random_ranks(edges[24:], np.random.default_rng(1)) != ranks).any()


def test_keys_of_equal_attention_hold_about_as_much_although_the_first_token_holds_most() -> None:
    """Were the first token in the order, cutting would end at its place."""
    edges = edges_of(PROMPT, "label_to_target")[26:]
    random = np.random.default_rng(0)
    attention = random.dirichlet(np.full(27, 3.0))
    attention[0] += attention[1:].sum()  # half of the attention
    weights = torch.from_numpy(attention / attention.sum()).expand(1, 1, 1, -1)
    wanted = weights[0, 0, 0][torch.from_numpy(edges[0])].sum()
    held = []
    for draw in range(40):
        ranks = torch.from_numpy(random_ranks(edges, np.random.default_rng(draw)))
        taken = as_heavy(weights, torch.from_numpy(edges)[None], ranks[None])
        held.append(weights[0, 0, 0][taken[0, 0]].sum())
    assert np.mean(held) == pytest.approx(float(wanted), rel=0.05)
