"""Heads as kernel regressions ([K] §4.1, §5), and the agreement of a sentence encoder's."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.analyses.kernel.summarize import head_keys, head_measures
from anchorflow.analyses.regressors.summarize import encoder_prediction, vectors_of
from anchorflow.arrays import Array
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
from anchorflow.depth import first_third, last_third
from anchorflow.random_draws import halves
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import (
    SeedStatistic,
    correlations,
    mean_where_defined,
    weighted_mean_where_defined,
)

READS = (
    "counts",
    "embeddings",
    "kernel",
    "kernel_attention",
    "kernel_predictions",
    "kernel_samples",
    "similarity",
)

NO_OTHERS = "there are no texts to score a head on that it was not chosen on"
ONE_NUMBER = "there is only one number of demonstrations"


Columns = tuple[int, int]  # of the heads to score on half 0 and half 1, each chosen on the other


class Candidates(NamedTuple):
    """The measures of every head by seed, and the half that each text belongs to."""

    agreement: dict[int, Array]  # [examples, heads]: 1 where head and model agree
    # [examples, heads]: of weights with similarity; empty if not measured
    correlation: dict[int, Array]
    permuted: dict[int, Array]  # [examples, heads]: as agreement, with weights permuted
    half: dict[int, NDArray[np.int64]]  # [examples]: 0 or 1
    texts: dict[int, NDArray[np.int64]]  # [examples]
    predictions: dict[int, NDArray[np.int64]]  # [examples], the model's
    heads: pl.DataFrame  # weights, layer, and head of each column

    def best(self, among: pl.Expr | None = None) -> Columns:
        """The heads of highest agreement over all seeds, on each half for the other one."""
        places = self.heads.with_row_index("column")
        columns = (places if among is None else places.filter(among))["column"].to_numpy()
        chosen = []
        for part in (0, 1):
            seen = [
                of[self.half[seed] != part][:, columns].mean(0)
                for seed, of in self.agreement.items()
                if (self.half[seed] != part).any()
            ]
            if not seen:
                raise NotMeasured(NO_OTHERS)
            chosen.append(int(columns[np.mean(seen, 0).argmax()]))
        return chosen[0], chosen[1]

    def of_constant(self) -> dict[int, Array]:
        """As :attr:`agreement`, for a constant: the most frequent prediction of the other half."""
        return {
            seed: agreement_of_constant(predicted, self.half[seed])
            for seed, predicted in self.predictions.items()
        }

    def held_out(self, values: Mapping[int, Array], *heads: Columns) -> Sampled:
        """The mean of values [examples, heads] over some heads, on texts not used to choose them.

        Without ``heads``, values have a single column, which belongs to no head.
        """
        columns = heads or ((0, 0),)
        return Sampled({seed: self._of_seed(seed, of, columns) for seed, of in values.items()})

    def _of_seed(self, seed: int, values: Array, heads: Sequence[Columns]) -> SeedStatistic:
        half = self.half[seed]
        of_parts = [values[:, [each[part] for each in heads]].mean(1) for part in (0, 1)]
        scores = np.stack([np.where(half == part, of_parts[part], np.nan) for part in (0, 1)], 1)
        of_halves = weighted_mean_where_defined(scores)
        return SeedStatistic(
            lambda weights: of_halves(weights).mean(1, keepdims=True), self.texts[seed]
        )


def agreement_of_constant(predictions: NDArray[np.int64], half: NDArray[np.int64]) -> Array:
    """1 where a prediction is the most frequent one of the other half, [examples, 1].

    NaN where the other half is empty.
    """
    agreement = np.full((len(predictions), 1), np.nan)
    for part in (0, 1):
        others = predictions[half != part]
        if len(others):
            here = half == part
            agreement[here, 0] = predictions[here] == np.bincount(others).argmax()
    return agreement


def candidates(run: Run) -> Candidates:
    """All heads as kernel regressions on their largest attention to each demonstration."""
    kernel = run.rows("kernel").filter(pl.col("weights") == "max")
    # A text is in the same half in all seeds, over which heads are chosen.
    half_of = halves(run.rows("kernel_predictions")["example"], 0)
    found: dict[str, dict[int, Any]] = {name: {} for name in Candidates._fields if name != "heads"}
    for seed, of_model in run.by_seed("kernel_predictions").items():
        ordered = of_model.sort("example")
        measures = head_measures(kernel.filter(pl.col("seed") == seed), ordered)
        for name in ("agreement", "correlation", "permuted"):
            if name in measures:
                found[name][seed] = measures[name]
        placed = ordered.select("example").join(half_of, on="example", maintain_order="left")
        found["half"][seed] = placed["half"].to_numpy()
        found["texts"][seed] = texts_of(ordered)
        found["predictions"][seed] = ordered["prediction"].to_numpy()
    return Candidates(**found, heads=head_keys(kernel))


def encoder_agreement(run: Run, predictions: pl.DataFrame, per_label: int | None) -> Array:
    """1 where the encoder's kernel regression and the model agree in one seed, [examples].

    Demonstrations are the first ``per_label`` of each label in the kernel prompt, or all.
    """
    ordered = predictions.sort("example")
    samples = run.rows("kernel_samples").filter(pl.col("seed") == ordered["seed"][0])
    vectors = vectors_of(run.rows("embeddings"), samples)
    first, classes = samples.row(0, named=True), len(predictions["probabilities"][0])
    some = slice(None) if per_label is None else slice(per_label * classes)
    queries = np.stack([vectors["test", row] for row in ordered["example"]])
    demonstrations = np.stack([vectors["train", row] for row in first["demonstration_rows"][some]])
    groups = run.by_seed("kernel_predictions")[ordered["seed"][0]]["token_groups"][0]
    labels = np.array(groups)[first["demonstration_labels"][some]]  # merged like those of the heads
    predicted = encoder_prediction(queries, demonstrations, labels, run.temperature)
    agreement: Array = (predicted == ordered["prediction"].to_numpy()).astype(float)
    return agreement


def agreement_gained(run: Run) -> Sampled:
    """Agreement with the encoder's kernel, all demonstrations minus the fewest, paired."""
    of_model, seeds = run.by_seed("kernel_predictions"), {}
    if "counts" in run.tables and run.tables["counts"].is_empty():
        raise NotMeasured(ONE_NUMBER)
    counts = run.rows("counts")
    for seed, every in of_model.items():
        of_seed = counts.filter(pl.col("seed") == seed)
        if of_seed.is_empty():
            continue
        fewest = int(of_seed["demonstrations_per_label"].to_numpy().min())
        few = of_seed.filter(
            pl.col("demonstrations_per_label") == fewest,
            pl.col("example").is_in(every["example"].implode()),
        )
        both = every.filter(pl.col("example").is_in(few["example"].implode()))
        if both.is_empty():
            continue
        gained = encoder_agreement(run, both, None) - encoder_agreement(run, few, fewest)
        seeds[seed] = mean_of_examples(both, gained)
    return Sampled.of_any(seeds, ONE_NUMBER)


def middle_over_others(run: Run) -> Sampled:
    """Held-out agreement of each layer's best head, middle third minus the other layers."""
    heads = candidates(run)
    layers = layers_of(heads.heads)
    depth = len(layers)
    if depth < 3:
        raise NotMeasured("a middle needs three layers or more")
    best = [heads.best(pl.col("layer") == layer) for layer in layers]
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


def held_out(run: Run, more: str, less: str) -> Sampled:
    """Held-out agreement with the model's answers of one way to predict them minus of another.

    ``head`` is the best head and ``permuted`` the same one with its weights permuted among the
    demonstrations. ``constant`` is the label that the model predicts most often with the seed's
    demonstrations. All three are chosen on one half of the texts and scored on the other.
    ``encoder`` is kernel regression with the sentence encoder.
    """
    heads = candidates(run)
    return minus(_agreement(run, heads, more), _agreement(run, heads, less))


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


_BEST_HEADS = Depth(
    "agreement of each layer's best head",
    (Curve("best head", "kernel", {"measure": "agreement", "weights": "max"}),),
)

CLAIMS = (
    Claim(
        "agreement_grows",
        "With more demonstrations, the model agrees more with kernel regression",
        "[K] §4.1",
        "agreement with the sentence encoder's kernel regression, with as many demonstrations as "
        "the budget allows minus that with the fewest",
        "share of predictions agreeing",
        agreement_gained,
        Control.subtracted("the fewest demonstrations"),
        figure="regressors",
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
        over_depth=_BEST_HEADS,
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
    Claim(
        "heads_reconstruct",
        "Kernel regression with the attention of one head predicts the model's answers",
        "[K] §5.5",
        "held-out agreement of the best head minus that of a held-out constant, the model's most "
        "frequent answer",
        "share of predictions agreeing",
        lambda run: held_out(run, "head", "constant"),
        Control.subtracted("the constant"),
        undefined=NO_OTHERS,
        over_depth=_BEST_HEADS,
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
        lambda run: held_out(run, "head", "encoder"),
        Control(
            "a held-out constant in the head's place",
            lambda run: held_out(run, "constant", "encoder"),
        ),
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
        lambda run: held_out(run, "head", "permuted"),
        # If the model always gives the same answer, some of its heads do so by chance, and permuted
        # weights lower their agreement as well.
        Control(
            "a held-out constant in the head's place",
            lambda run: held_out(run, "constant", "permuted"),
        ),
        form=DISCRIMINATING,
        undefined=NO_OTHERS,
        figure="kernel",
    ),
)
