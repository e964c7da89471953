"""Claims on heads as kernel regressions: where each holds, and where not, by hand."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.kernel import SEGMENTED
from anchorflow.analyses.kernel.segments import segment_names
from anchorflow.analyses.probes import PROBES
from anchorflow.claims.claim import Run, Sampled
from anchorflow.claims.sections.kernel import agreement_of_constant as of_the_constant
from anchorflow.claims.summarize import load_claims
from anchorflow.schemas.fields import SINK
from anchorflow.schemas.prompts import PROMPTS
from constructed.claims import (
    BOTH,
    HEAD_TEXTS,
    LAYERS,
    SEEDS,
    TOLD,
    TWIN,
    Constructed,
    Tables,
    agreement_of_constant,
    attention_and_similarity,
    cells,
    disagrees,
    encoder,
    expect,
    half_of,
    judged,
    kernel,
    lacks,
    verdicts_of,
)
from constructed.kernel import samples
from constructed.rows import frame

# A tenth of the tokens each are label words and the template before them.
TOKENS = {"before_text": 2, "text": 5, "before_label": 1, "label": 1, "after": 1}

# Of attention to demonstrations, which is 0.8 in all.
ATTENTION = {"holds": 0.32, "even": 0.08, "fails": 0.04}

EFFECTS_LANDING = {"holds": 0.3, "even": 0.0, "fails": -0.05}


def tables_of_landing(own: str, before: str = "even") -> Tables:
    """Two layers with two heads, of which the first attends to nothing."""
    attention = {"label": ATTENTION[own], "before_label": ATTENTION[before]}
    rest = (0.8 - sum(attention.values())) / 3
    rows = [
        {**cell, "layer": layer, "head": head, "segment": segment}
        | {"attention": (2 * head) * attention.get(segment, rest), "tokens": TOKENS[segment]}
        | {"width": 0.2}
        for cell in cells(examples=200)
        for layer in (0, 1)
        for head in (0, 1)
        for segment in segment_names(["text"])
    ]
    return {"segments": frame(rows, SEGMENTED)}


def test_a_layer_that_does_not_attend_to_demonstrations_does_not_count() -> None:
    rows = tables_of_landing("holds", "even")["segments"]
    local = pl.when(pl.col("layer") == 1).then(0).otherwise(pl.col("attention"))
    found = judged("attention_lands_on_label_words", {"segments": rows.with_columns(local)})
    assert found["effect"] == pytest.approx(0.3, abs=1e-6)


def test_what_sinks_take_does_not_count() -> None:
    rows = tables_of_landing("holds", "even")["segments"]
    sinks = rows.filter(segment="label").with_columns(segment=pl.lit(SINK), tokens=pl.lit(0))
    found = judged(
        "attention_lands_on_label_words",
        {"segments": pl.concat([rows, sinks], how="vertical_relaxed")},
    )
    assert found["effect"] == pytest.approx(0.3, abs=1e-6)


# Every how many texts the better one of a layer's two heads disagrees: agreement of 1, 3/4, 1/2.
MIDDLE = {"holds": 0, "even": 4, "fails": 2}

EFFECTS_MIDDLE = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of_middle(own: str, layers: int = LAYERS) -> Tables:
    """The other head of each layer never agrees."""
    better = [MIDDLE[own] if layer in (2, 3) else 4 for layer in range(layers)]
    return kernel(
        {(layer, head): (1, better[layer])[head] for layer in range(layers) for head in (0, 1)}
    )


CORRELATION = {"holds": 0.5, "even": 0.0, "fails": -0.75}


def tables_of_similarity(own: str) -> Tables:
    """Another head agrees less, and has another correlation."""
    found = kernel({(0, 0): 2, (0, 1): 4}, None, {(0, 0): 0.9, (0, 1): CORRELATION[own]})
    return {**found, **attention_and_similarity([0.0, 0.5, 0.0], [0.1, 0.2, 0.3], [(0, 0), (0, 1)])}


def test_attention_that_is_the_same_for_every_text_earns_its_correlation_as_well() -> None:
    tables = {
        **tables_of_similarity("holds"),
        **attention_and_similarity([0.1, 0.3, 0.2], [0.1, 0.2, 0.3], [(0, 0), (0, 1)]),
    }
    found = judged("weights_follow_similarity", tables, tables_of_similarity("even"))
    expect(found, 0.5, "undecided", "not clearly above its control", 0.5, 0.0)


def test_texts_without_a_correlation_do_not_count() -> None:
    tables = tables_of_similarity("holds")
    gone = pl.when(pl.col("example") < 7).then(None).otherwise(pl.col("correlation"))
    changed = {**tables, "kernel": tables["kernel"].with_columns(correlation=gone)}
    assert judged("weights_follow_similarity", changed)["effect"] == pytest.approx(0.5)
    never = {
        **tables,
        "kernel": tables["kernel"].with_columns(correlation=pl.lit(None, pl.Float64)),
    }
    found = judged("weights_follow_similarity", never)
    assert (found["effect"], found["verdict"]) == (None, "undecided")
    assert found["reason"].startswith("undefined: ")
    assert found["reason"].endswith("or similarity does not vary")


DEMONSTRATIONS = 20

# What is decoded from what: after label words of one token, and before them.
CLAIMS = {
    "probes_decode_label_after": ("value", "label", (1, 2)),
    "probes_decode_next_token_before_keys": ("key", "next_token", (-1,)),
    "probes_decode_next_token_before_values": ("value", "next_token", (-1,)),
}

# With shuffled targets; as they are, one of two heads decodes every demonstration.
SHUFFLED = {"holds": 0.25, "even": 0.5, "fails": 0.75}


def tables_of_probes(source: str, target: str, at: Sequence[int], own: str) -> Tables:
    """Of anything else than the claim is about, nothing is decoded."""
    rows = [
        {"model": "tiny", "task": "news", "seed": seed, "layer": layer, "head": head}
        | {"offset": offset, "source": of, "target": what, "demonstration": demonstration}
        | {"correct": head == 1 and (of, what) == (source, target) and offset in at}
        | {"shuffled": SHUFFLED[own]}
        for seed, layer, head, offset, of, what, demonstration in product(
            SEEDS,
            (0, 1),
            (0, 1),
            (-1, 0, 1, 2),
            ("key", "value"),
            ("label", "next_token"),
            range(DEMONSTRATIONS),
        )
    ]
    # The first two of every seed's demonstrations are the same texts.
    shown = {seed: [0, 1, *range(20 * seed + 2, 20 * seed + 20)] for seed in SEEDS}
    return {
        "probes": frame(rows, PROBES),
        "kernel_samples": samples(shown),
        "prompts": prompts_with_words(1),
    }


def prompts_with_words(*tokens: int) -> pl.DataFrame:
    """Prompts whose label words have so many tokens."""
    starts = [10 * place for place in range(len(tokens))]
    ends = [start + count for start, count in zip(starts, tokens, strict=True)]
    row = {"seed": 0, "demonstrations": "fixed", "label_positions": starts, "label_ends": ends}
    return frame([row], PROMPTS)


def test_demonstrations_are_the_texts_that_they_are_in_other_seeds() -> None:
    found = next(c for c in load_claims() if c.name == "probes_decode_next_token_before_keys")
    tables = tables_of_probes("key", "next_token", (-1,), "holds")
    measured = found.measure(Run("news", tables, "mask", 0.05))
    assert isinstance(measured, Sampled)
    texts = {int(text) for of in measured.by_seed.values() for text in of.texts}
    assert len(texts) == len(SEEDS) * (DEMONSTRATIONS - 2) + 2


def test_what_a_label_word_s_own_tokens_hold_does_not_count() -> None:
    tables = tables_of_probes("value", "label", (1,), "holds")  # and not at the token after it
    longer = {**tables, "prompts": prompts_with_words(2, 2)}
    assert judged("probes_decode_label_after", tables)["effect"] == pytest.approx(0)
    assert judged("probes_decode_label_after", longer)["effect"] == pytest.approx(-0.25)


# The model says 1 of three quarters of each half, which is what the constant agrees with.
SAID = [int(not disagrees(example, 4)) for example in range(HEAD_TEXTS)]

# Every how many texts the best of three heads disagrees.
HEADS = {"holds": 0, "even": 4, "fails": 2}


def tables_of_constant(own: str, told: Sequence[int] = SAID) -> Tables:
    return kernel({(0, 0): 1, (0, 1): HEADS[own], (1, 0): 2}, told=told)


def test_the_constant_is_chosen_on_the_other_half() -> None:
    # 0 is more frequent in the first half, and 1 in the second; each is scored on the other.
    predictions, half = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    agreement = of_the_constant(predictions, half)
    assert agreement[:, 0].tolist() == [0, 0, 1, 0, 0, 1]
    assert np.isnan(of_the_constant(predictions, np.zeros(6))).all()


def test_heads_are_scored_on_texts_that_they_were_not_chosen_on() -> None:
    # Each of two heads agrees on one half alone, so the one chosen there agrees nowhere else.
    half = half_of()
    tables = kernel({(0, 0): 0, (0, 1): 0}, told=TOLD)
    in_half = pl.col("example").replace_strict(dict(enumerate(half))) == pl.col("head")
    told = pl.when(in_half).then(pl.col("prediction"))
    changed = {**tables, "kernel": tables["kernel"].with_columns(prediction=told)}
    found = judged("heads_reconstruct", changed)
    shares = [np.mean([TOLD[e] for e in range(HEAD_TEXTS) if half[e] == part]) for part in (0, 1)]
    constant = np.mean(
        [shares[part] if shares[1 - part] > 0.5 else 1 - shares[part] for part in (0, 1)]
    )
    assert found["effect"] == pytest.approx(0 - constant)


# Every how many texts the encoder disagrees, where the best head does on one of four.
ENCODER = {"holds": 2, "even": 4, "fails": 0}


def tables_of_encoder(own: str) -> Tables:
    return {**kernel({(0, 0): 2, (0, 1): 4}), **encoder(ENCODER[own])}


# Every how many texts the best head disagrees with its weights permuted, where else it does on one
# of four.
PERMUTED = {"holds": 2, "even": 4, "fails": 0}


def tables_of_pairing(own: str) -> Tables:
    """Another head agrees less, and always when permuted."""
    return kernel({(0, 0): 2, (0, 1): 4}, {(0, 0): 0, (0, 1): PERMUTED[own]})


def test_a_head_that_answers_always_the_same_as_the_model_does_needs_no_pairing() -> None:
    # Permuted weights lower its agreement from 1 to 1 of 2, and that of a constant as well.
    tables = kernel({(0, 0): 2, (0, 1): 0}, {(0, 0): 0, (0, 1): 2}, told=[1] * HEAD_TEXTS)
    found = judged("heads_need_pairing", tables, tables_of_pairing("fails"))
    assert found["effect"] == found["control_effect"] == 0.5
    assert (found["verdict"], found["reason"]) == ("undecided", "not clearly above its control")


def test_what_is_lacking_is_named() -> None:
    two = tables_of_middle("holds", 2)
    lacks("best_heads_in_the_middle", two, "a middle needs three layers or more")
    one = {name: rows.filter(example=0) for name, rows in tables_of_constant("holds").items()}
    lacks("heads_reconstruct", one, "there are no texts to score a head on that it was not chosen")
    probed = tables_of_probes("key", "label", (0,), "holds")
    before = {**probed, "probes": probed["probes"].filter(pl.col("offset") <= 0)}
    remedy = "kernel: {demonstrations_per_label: 4, offsets: [-1, 0, 1, 2, 3]}"
    reason = "no probe decodes label from values beside label words"
    lacks("probes_decode_label_after", before, reason, remedy)
    labels = {**probed, "probes": probed["probes"].filter(target="label")}
    assert judged("probes_decode_label_after", labels)["verdict"] != "not measured"
    remedy = "probes: {targets: [label, next_token]}"
    lacks("probes_decode_next_token_before_keys", labels, "no probe decodes next_token", remedy)
    unequal = {**probed, "prompts": prompts_with_words(1, 2)}
    lacks("probes_decode_label_after", unequal, "label words differ in their number of tokens")


def of_constant(own: str) -> float:
    """The constant minus the encoder, or the head with permuted weights: .5, .75, or 1 agree."""
    return agreement_of_constant() - (0.75 - EFFECTS_MIDDLE[own])


def twin_of_encoder(own: str, twin: str) -> Tables:
    """The encoder is no part of the network, whose best head agrees as often as it, or on .75."""
    return kernel({(0, 0): 1, (0, 1): {"even": ENCODER[own], "holds": 4}[twin]})


CONSTRUCTED = (
    Constructed("attention_lands_on_label_words", tables_of_landing, EFFECTS_LANDING, BOTH),
    Constructed(
        "best_heads_in_the_middle", tables_of_middle, EFFECTS_MIDDLE, TWIN, examples=3 * HEAD_TEXTS
    ),
    Constructed("weights_follow_similarity", tables_of_similarity, CORRELATION, TWIN, lambda _: 0),
    *(
        Constructed(
            claim,
            partial(tables_of_probes, *probed),
            EFFECTS_MIDDLE,
            TWIN,
            examples=len(SEEDS) * DEMONSTRATIONS,
        )
        for claim, probed in CLAIMS.items()
    ),
    Constructed("heads_reconstruct", tables_of_constant, EFFECTS_MIDDLE, TWIN),
    Constructed(
        "head_over_encoder", tables_of_encoder, EFFECTS_MIDDLE, TWIN, of_constant, twin_of_encoder
    ),
    Constructed("heads_need_pairing", tables_of_pairing, EFFECTS_MIDDLE, TWIN, of_constant),
)


@verdicts_of(*CONSTRUCTED)
def test_verdicts(check: Callable[[], None]) -> None:
    check()
