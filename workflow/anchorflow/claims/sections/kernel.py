"""Heads as kernel regressions, and where attention lands ([K] §5)."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.probes.summarize import with_texts
from anchorflow.claims.claim import (
    DISCRIMINATING,
    Claim,
    Control,
    Curve,
    Depth,
    NotMeasured,
    Run,
    Sampled,
)
from anchorflow.claims.effects import mean_of_examples, minus
from anchorflow.claims.encoder import encoder_agreement
from anchorflow.claims.heads import NO_OTHERS, Candidates, candidates
from anchorflow.depth import first_third, last_third
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import (
    SeedStatistic,
    correlations,
    mean_where_defined,
    weighted_mean,
)

READS = (
    "segments",
    "kernel",
    "kernel_attention",
    "similarity",
    "kernel_predictions",
    "probes",
    "prompts",
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
    """Held-out agreement of each layer's best head, middle third minus the other layers."""
    heads = candidates(run)
    depth = heads.heads["layer"].n_unique()
    if depth < 3:
        raise NotMeasured("a middle needs three layers or more")
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


def similarity_of_others(run: Run) -> Sampled:
    """As :func:`similarity_followed`, with the weights of the other texts, the mean over them.

    Weights that are the same for every test text may go along with similarity, too: some
    demonstrations attract more attention and are similar to all texts.
    """
    heads, similarity = candidates(run), run.by_seed("similarity")
    best, found = heads.best(), {}
    for seed, rows in run.by_seed("kernel_attention").items():
        of_texts = similarity[seed].sort("example", "demonstration")
        texts = of_texts["example"].n_unique()
        ordered = rows.sort("example", "layer", "head")["attention_max"]
        weights = np.stack(ordered.to_list()).astype(float)
        weights = weights.reshape(texts, -1, weights.shape[-1])  # [texts, heads, demonstrations]
        similar = of_texts["similarity"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        similar = similar.reshape(texts, 1, -1)
        found[seed] = np.full(weights.shape[:2], np.nan)
        for head in best:  # other heads are not asked for
            of_head = weights[:, [head]]
            others = [correlations(np.roll(of_head, n, 0), similar) for n in range(1, texts)]
            if others:
                found[seed][:, [head]] = mean_where_defined(np.stack(others), 0)
    return heads.held_out(found, best)


def gathered(run: Run, source: str, target: str) -> Sampled:
    """Share of demonstrations decoded beside label words minus that with shuffled targets.

    Labels are decoded from the tokens after a label word, next tokens from those before it: what is
    held there has been gathered. The mean over these tokens, layers, and key-value heads.
    """
    at = pl.col("offset") < 0 if target == "next_token" else pl.col("offset") >= _word_tokens(run)
    decoded = set(run.rows("probes")["target"])
    if decoded and target not in decoded:
        raise NotMeasured(f"no probe decodes {target}", "probes: {targets: [label, next_token]}")
    seeds = {}
    for seed, rows in run.by_seed("probes").items():
        chosen = rows.filter(at, source=source, target=target)
        if chosen.is_empty():
            continue
        gain = with_texts(chosen, run.rows("kernel_samples")).with_columns(
            gain=pl.col("correct").cast(pl.Float64) - pl.col("shuffled").cast(pl.Float64)
        )
        of = gain.group_by("example").agg(pl.col("gain").mean()).sort("example")
        gained = of["gain"].to_numpy()[:, np.newaxis]
        seeds[seed] = SeedStatistic(weighted_mean(gained), texts_of(of))
    if not seeds:
        raise NotMeasured(f"no probe decodes {target} from {source}s beside label words", _PROBED)
    return Sampled(seeds)


_PROBED = "kernel: {demonstrations_per_label: 4, offsets: [-1, 0, 1, 2, 3]}"


def _word_tokens(run: Run) -> int:
    """The number of tokens of every label word, from whose first one offsets are counted."""
    prompts = run.rows("prompts").filter(demonstrations="fixed")
    ends, starts = (prompts[name].explode() for name in ("label_ends", "label_positions"))
    counts = (ends - starts).drop_nulls().unique().to_list()
    if len(counts) != 1:
        raise NotMeasured("label words differ in their number of tokens")
    return int(counts[0])


@dataclass(frozen=True)
class HeldOut:
    """Held-out agreement with the model's answers of one way to predict them minus of another.

    ``head`` is the best head and ``permuted`` the same one with its weights permuted among the
    demonstrations. ``constant`` is the label that the model predicts most often with the seed's
    demonstrations. All three are chosen on one half of the texts and scored on the other.
    ``encoder`` is kernel regression with the sentence encoder.
    """

    more: str
    less: str

    def __call__(self, run: Run) -> Sampled:
        """The difference, paired by text."""
        heads = candidates(run)
        more, less = (_agreement(run, heads, way) for way in (self.more, self.less))
        return minus(more, less)


def _agreement(run: Run, heads: Candidates, way: str) -> Sampled:
    if way == "constant":
        return heads.held_out(heads.of_constant())
    if way == "encoder":
        return heads.held_out(
            {
                seed: encoder_agreement(run, predicted, None)[:, np.newaxis]
                for seed, predicted in run.by_seed("kernel_predictions").items()
            }
        )
    values = {"head": heads.agreement, "permuted": heads.permuted}[way]
    return heads.held_out(values, heads.best())


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
        figure="landing",
        measured_in="kernel",
    ),
    Claim(
        "best_heads_in_the_middle",
        "The heads whose attention best predicts the model's answers lie in middle layers",
        "[K] §5.2, Fig. 3",
        "held-out agreement of each layer's best head, middle third minus first and last thirds",
        "share of predictions agreeing",
        middle_over_others,
        Control.subtracted("the first and the last third"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "kernel", {"measure": "agreement", "weights": "max"}),),
        ),
        figure="kernel",
    ),
    Claim(
        "weights_follow_similarity",
        "The best head attends more to demonstrations that are more similar to the test text",
        "[K] §5.3, Fig. 4",
        "correlation of attention with similarity over demonstrations, for the held-out best head",
        "Pearson's r",
        similarity_followed,
        Control("the attention of other test texts in place of a text's", similarity_of_others),
        undefined=f"{NO_OTHERS}, or similarity does not vary",
        figure="kernel",
    ),
    # At a label word, keys and values are those of the token itself, which names the label. What
    # the tokens beside it hold has been gathered there. An untrained network gathers some of it as
    # well, by attending to all tokens alike.
    *(
        Claim(
            name,
            statement,
            "[K] §5.4",
            f"share of demonstrations whose {target} a probe decodes there minus that of shuffled "
            "targets, mean over tokens, layers, and heads",
            "accuracy",
            partial(gathered, source=source, target=target),
            Control.subtracted("shuffled targets"),
            form=DISCRIMINATING,
            figure="probes",
        )
        for name, source, target, statement in (
            (
                "probes_decode_label_after",
                "value",
                "label",
                "Values of the tokens after a label word hold the demonstration's label",
            ),
            *(
                (
                    f"probes_decode_next_token_before_{source}s",
                    source,
                    "next_token",
                    f"{source.title()}s of the token before a label word hold the model's most "
                    "likely token after the demonstration's text",
                )
                for source in ("key", "value")
            ),
        )
    ),
    Claim(
        "heads_reconstruct",
        "Kernel regression with the attention of one head predicts the model's answers",
        "[K] §5.5",
        "held-out agreement of the best head minus that of a held-out constant, the model's most "
        "frequent answer",
        "share of predictions agreeing",
        HeldOut("head", "constant"),
        Control.subtracted("the constant"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "kernel", {"measure": "agreement", "weights": "max"}),),
        ),
        figure="regressors",
        measured_in="kernel",
        question="Is a head's attention a kernel regression that gives the model's answers?",
    ),
    Claim(
        "head_over_encoder",
        "A head's kernel regression predicts the model's answers better than an encoder's",
        "[K] §5.5, Table 2",
        "held-out agreement of the best head minus that of kernel regression with the sentence "
        "encoder",
        "share of predictions agreeing",
        HeldOut("head", "encoder"),
        Control("a held-out constant in the head's place", HeldOut("constant", "encoder")),
        undefined=NO_OTHERS,
        figure="regressors",
        measured_in="kernel",
    ),
    Claim(
        "heads_need_pairing",
        "Permuting a head's weights among the demonstrations lowers its agreement with the model",
        "[K] §5.5",
        "held-out agreement of the best head minus that with its weights permuted among the "
        "demonstrations",
        "share of predictions agreeing",
        HeldOut("head", "permuted"),
        # If the model always gives the same answer, some of its heads do so by chance, and permuted
        # weights lower their agreement as well.
        Control("a held-out constant in the head's place", HeldOut("constant", "permuted")),
        form=DISCRIMINATING,
        undefined=NO_OTHERS,
        figure="kernel",
    ),
)
