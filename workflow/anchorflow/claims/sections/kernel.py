"""Heads as kernel regressions, and where attention lands ([K] §5)."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.probes.summarize import with_texts
from anchorflow.arrays import Array
from anchorflow.claims.claim import (
    DISCRIMINATING,
    Claim,
    Control,
    Curve,
    Depth,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.claims.effects import mean_of_examples, minus
from anchorflow.claims.encoder import encoder_agreement
from anchorflow.claims.heads import NO_OTHERS, candidates
from anchorflow.depth import first_third, last_third
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean

READS = (
    "segments",
    "kernel",
    "kernel_predictions",
    "probes",
    "kernel_samples",
    "embeddings",
)


_CELL = ("example", "layer")


def beyond_length(run: Run, segment: str = "label") -> Sampled:
    """A segment's share of attention to the demonstrations minus its share of tokens.

    The mean over layers, except those without attention to the demonstrations, which may lie
    outside a sliding window.
    """
    seeds = {}
    for seed, rows in run.by_seed("segments").items():
        means = rows.group_by(*_CELL, "segment").agg(
            pl.col("attention").cast(pl.Float64).mean(), pl.col("tokens").first()
        )
        shares = means.with_columns(
            beyond=pl.col("attention") / pl.col("attention").sum().over(_CELL)
            - pl.col("tokens") / pl.col("tokens").sum().over(_CELL)
        ).filter(pl.col("segment") == segment)
        defined = pl.col("beyond").fill_nan(None)
        of_examples = shares.group_by("example").agg(defined.mean()).sort("example")
        values = of_examples["beyond"].fill_null(np.nan).to_numpy()
        seeds[seed] = mean_of_examples(of_examples, values)
    return Sampled(seeds)


def middle_over_others(run: Run) -> Sampled:
    """Held-out agreement of each layer's best head, middle third minus the other layers.

    Raises
    ------
    NotTested
        If there are fewer than three layers.
    """
    heads = candidates(run)
    depth = heads.heads["layer"].n_unique()
    if depth < 3:
        raise NotTested("a middle needs three layers or more")
    best = [heads.best(pl.col("layer") == layer) for layer in range(depth)]
    early, late = best[first_third(depth)], best[last_third(depth)]
    middle = best[len(early) : depth - len(late)]
    return minus(
        heads.held_out(heads.agreement, *middle), heads.held_out(heads.agreement, *early, *late)
    )


def similarity_followed(run: Run) -> Sampled:
    """Pearson's correlation of weights with similarity, for the head chosen on other texts."""
    heads = candidates(run)
    return heads.held_out(heads.correlation, heads.best())


def decoded_over_shuffled(run: Run, source: str, target: str) -> Sampled:
    """Share of demonstrations decoded minus that with shuffled targets, at the label word.

    The mean over layers and key-value heads.

    Raises
    ------
    NotTested
        If nothing was probed.
    """
    seeds = {}
    for seed, rows in run.by_seed("probes").items():
        chosen = rows.filter(
            pl.col("source") == source, pl.col("target") == target, pl.col("offset") == 0
        )
        if chosen.is_empty():
            continue
        gain = with_texts(chosen, run.rows("kernel_samples")).with_columns(
            gain=pl.col("correct").cast(pl.Float64) - pl.col("shuffled").cast(pl.Float64)
        )
        of = gain.group_by("example").agg(pl.col("gain").mean()).sort("example")
        gained = of["gain"].to_numpy()[:, np.newaxis]
        seeds[seed] = SeedStatistic(weighted_mean(gained), texts_of(of))
    if not seeds:
        raise NotTested(f"no probe decodes {target} from {source}s")
    return Sampled(seeds)


def head_over_constant(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of a constant prediction.

    Head and constant are both chosen on one half of the texts and scored on the other. The constant
    is the label that the model predicts most often there with the seed's demonstrations.
    """
    heads = candidates(run)
    return minus(heads.held_out(heads.agreement, heads.best()), heads.held_out(heads.of_constant()))


def head_over_encoder(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of the encoder's kernel regression."""
    heads = candidates(run)
    return minus(heads.held_out(heads.agreement, heads.best()), heads.held_out(_of_encoder(run)))


def constant_over_encoder(run: Run) -> Sampled:
    """As :func:`head_over_encoder`, with a held-out constant in the head's place."""
    heads = candidates(run)
    return minus(heads.held_out(heads.of_constant()), heads.held_out(_of_encoder(run)))


def _of_encoder(run: Run) -> dict[int, Array]:
    """Agreement of the encoder's kernel regression in each seed, [examples, 1]."""
    return {
        seed: encoder_agreement(run, predicted, None)[:, np.newaxis]
        for seed, predicted in run.by_seed("kernel_predictions").items()
    }


def paired_over_permuted(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that with its weights permuted."""
    heads = candidates(run)
    best = heads.best()
    return minus(heads.held_out(heads.agreement, best), heads.held_out(heads.permuted, best))


def constant_over_permuted(run: Run) -> Sampled:
    """As :func:`paired_over_permuted`, with a held-out constant in the head's place.

    If the model always gives the same answer, some of its heads do so by chance, and permuted
    weights lower their agreement as well.
    """
    heads = candidates(run)
    permuted = heads.held_out(heads.permuted, heads.best())
    return minus(heads.held_out(heads.of_constant()), permuted)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "attention_lands_on_label_words",
        "Attention to demonstrations lands on label words beyond their share of tokens",
        "[K] §5.1, Fig. 2",
        "label words' share of the target's attention to demonstrations minus their share of "
        "tokens, mean over layers",
        "share of attention",
        beyond_length,
        Control(
            "the template before the label word in its place",
            lambda run: beyond_length(run, "before_label"),
        ),
    ),
    Claim(
        "best_heads_in_the_middle",
        "The heads whose attention best predicts the model's answers lie in middle layers",
        "[K] §5.2, Fig. 3",
        "held-out agreement of each layer's best head, middle third minus first and last thirds",
        "share of predictions agreeing",
        middle_over_others,
        Control("the first and the last third, already subtracted in the effect"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "kernel", {"measure": "agreement", "weights": "max"}),),
        ),
        place=2,
    ),
    Claim(
        "weights_follow_similarity",
        "The best head attends more to demonstrations that are more similar to the test text",
        "[K] §5.3, Fig. 4",
        "correlation of attention with similarity over demonstrations, for the held-out best head",
        "Pearson's r",
        similarity_followed,
        Control("weights assigned to other demonstrations, whose correlation is 0 on average"),
        undefined=f"{NO_OTHERS}, or similarity does not vary",
    ),
    *(
        Claim(
            f"probes_decode_{target}_from_{source}s",
            f"{what} can be decoded from label words' {source}s",
            "[K] §5.4",
            f"share of demonstrations whose {target} a probe decodes minus that of shuffled "
            "targets, mean over layers and heads",
            "accuracy",
            partial(decoded_over_shuffled, source=source, target=target),
            Control("shuffled targets, already subtracted in the effect"),
            "shuffled targets",
            place=1,
        )
        for source in ("key", "value")
        for target, what in (
            ("label", "A demonstration's label"),
            ("next_token", "The model's most likely token after a demonstration's text"),
        )
    ),
    Claim(
        "heads_reconstruct",
        "Kernel regression with the attention of one head predicts the model's answers",
        "[K] §5.5",
        "held-out agreement of the best head minus that of a held-out constant, the model's most "
        "frequent answer",
        "share of predictions agreeing",
        head_over_constant,
        Control("the constant, already subtracted in the effect"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "kernel", {"measure": "agreement", "weights": "max"}),),
        ),
    ),
    Claim(
        "head_over_encoder",
        "A head's kernel regression predicts the model's answers better than an encoder's",
        "[K] §5.5, Table 2",
        "held-out agreement of the best head minus that of kernel regression with the sentence "
        "encoder",
        "share of predictions agreeing",
        head_over_encoder,
        Control("a held-out constant in the head's place", constant_over_encoder),
        undefined=NO_OTHERS,
        place=1,
    ),
    Claim(
        "heads_need_pairing",
        "Permuting a head's weights among the demonstrations lowers its agreement with the model",
        "[K] §5.5",
        "held-out agreement of the best head minus that with its weights permuted among the "
        "demonstrations",
        "share of predictions agreeing",
        paired_over_permuted,
        Control("a held-out constant in the head's place", constant_over_permuted),
        form=DISCRIMINATING,
        undefined=NO_OTHERS,
        place=3,
    ),
)
