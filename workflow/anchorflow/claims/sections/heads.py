"""Attention heads: which are needed, and whether scores agree.

[H] stands for work on attention heads: section 1 for label copy (Cho et al. 2025), 2 for function
vectors and induction heads (Yin and Steinhardt 2025), 3 for task recognition and task learning
(Yang et al. 2025), and 4 for the agreement of scores.
"""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.ablation.summarize import ablation_measures
from anchorflow.analyses.heads.summarize import WITHOUT_TEXTS, head_matrix, with_difference
from anchorflow.analyses.kernel.summarize import head_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import difference_by_seed, mean_of_examples, minus
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import (
    SeedStatistic,
    mean_where_defined,
    rank_correlations,
    weighted_mean,
)

READS = ("heads", "ablation", "kernel", "kernel_predictions", "reweighting_beta")

AT_CHANCE = "none, since an untrained network answers by chance and can lose nothing"
_UNHELPFUL = "demonstrations do not raise accuracy in this task, so heads have nothing to lose"


def without_heads(run: Run, score: str, measure: str) -> Sampled:
    """A measure without random heads minus that without the heads of the highest scores.

    The mean over all shares. Random heads are of the same layers.
    """
    rows = ablation_measures(run.rows("ablation"))
    means = dict(rows.group_by("score").agg(pl.col("accuracy").mean()).iter_rows())
    if means["none"] <= means["alone"]:
        raise NotMeasured(_UNHELPFUL)
    taken = rows.filter(score=score)
    if taken.is_empty():
        raise NotMeasured(
            f"the run does not take away the heads of the highest {score}",
            f"ablation: {{scores: [{score}]}}",
        )
    # At the target, where predictions are made, if the run has it; by the mean, likewise.
    where = "target" if "target" in set(taken["where"]) else taken["where"][0]
    by = "mean" if "mean" in set(taken["by"]) else taken["by"][0]
    common = [{"where": where, "by": by, "share": share} for share in sorted(set(taken["share"]))]
    random, highest = ([{**of, "control": control} for of in common] for control in (True, False))
    return difference_by_seed(taken, random, highest, measure)


def without_rather(run: Run, score: str, instead: str, measure: str) -> Sampled:
    """:func:`without_heads` of one score minus that of another.

    Both against random heads of their own layers, so that the depth of the heads does not count.
    """
    first, second = (without_heads(run, name, measure) for name in (score, instead))
    return minus(first, second)


def _of_score(run: Run, score: str) -> dict[int, pl.DataFrame]:
    """Rows of one score by seed."""
    seeds = {seed: rows.filter(score=score) for seed, rows in run.by_seed("heads").items()}
    found = {seed: rows for seed, rows in seeds.items() if not rows.is_empty()}
    if not found:
        raise NotMeasured(
            f"the run does not score heads by {score}",
            "heads: {scores: [prefix_matching, writing]}",
        )
    return found


def negative_heads(run: Run) -> Sampled:
    """Share of heads with negative label copy minus that at matched tokens of the texts.

    Of heads that attend to neither, none is negative.
    """
    seeds = {}
    for seed, rows in _of_score(run, "label_copy").items():
        copied, matched = (head_matrix(rows, column) for column in ("value", "control"))
        difference = np.where(np.isnan(copied + matched), np.nan, copied < 0) - (matched < 0)
        seeds[seed] = mean_of_examples(rows, mean_where_defined(difference, 1))
    return Sampled(seeds)


def reads_and_writes(run: Run, measure: str = "agreement") -> Sampled:
    """Rank correlation of label copy with agreement as kernel regression, within layers."""
    kernel = run.rows("kernel").filter(weights="max")
    of_model = run.by_seed("kernel_predictions")
    agreement = {
        seed: head_measures(kernel.filter(seed=seed), rows.sort("example"))[measure].mean(0)
        for seed, rows in of_model.items()
    }
    return _over_heads(run, "label_copy", agreement)


def fitted_where_copied(run: Run, score: str = "label_copy") -> Sampled:
    """Rank correlation of a score with β, averaged over demonstrations, within layers."""
    means = {}
    for seed, rows in run.by_seed("reweighting_beta").items():
        of_heads = rows.group_by("layer", "head").agg(pl.col("beta").mean()).sort("layer", "head")
        means[seed] = of_heads["beta"].to_numpy()
    return _over_heads(run, score, means)


def _over_heads(run: Run, score: str, others: dict[int, Array]) -> Sampled:
    """Rank correlation of mean scores with other values of heads, by seed.

    Ranks are compared within layers, since scores of most kinds are high in the same layers. A
    score that has no texts counts as the same for all texts of label copy.
    """
    seeds = {}
    of_texts = _of_score(run, "label_copy")
    for seed, rows in _of_score(run, score).items():
        if seed in others and seed in of_texts:
            values = head_matrix(with_difference(rows), "difference")
            texts = texts_of(of_texts[seed])
            if score in WITHOUT_TEXTS:
                values = np.broadcast_to(values.mean(0), (len(texts), values.shape[1]))
            statistic = partial(_agreement, values, others[seed], rows["layer"].n_unique())
            seeds[seed] = SeedStatistic(statistic, texts)
    if not seeds:
        raise NotMeasured("heads are scored for other seeds than those of what is compared")
    return Sampled(seeds)


def _agreement(values: Array, others: Array, layers: int, weights: Array) -> Array:
    means = weighted_mean(values)(weights)
    return rank_correlations(means, np.broadcast_to(others, means.shape), layers)[..., None]


_ASKED_FOR = {
    "heads": "heads: {scores: [prefix_matching, writing, task, gathering]}",
    "ablation": "ablation: {scores: [label_copy]}",
}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "label_copy_is_needed",
        "Heads that copy label words are needed: accuracy falls more without them than without "
        "random heads",
        "[H] §1",
        "accuracy without random heads of the same layers minus that without the heads of the "
        "highest label copy, chosen on other texts, over all shares of heads",
        "accuracy",
        partial(without_heads, score="label_copy", measure="accuracy"),
        Control.subtracted("random heads of the same layers"),
        null=AT_CHANCE,
        form=DISCRIMINATING,
        figure="ablation",
        asked_for=_ASKED_FOR,
        question="Are the heads that copy label words needed?",
    ),
    Claim(
        "cancelling_heads_exist",
        "Heads that write against the labels that they attend to are more than by chance",
        "[H] §1",
        "share of heads with negative label copy minus that with matched tokens of the texts in "
        "place of label words",
        "share of heads",
        negative_heads,
        Control.subtracted("matched tokens of the texts"),
        form=DISCRIMINATING,
        figure="heads",
        asked_for=_ASKED_FOR,
    ),
    Claim(
        "function_vectors_over_induction",
        "Function-vector heads matter more than induction heads",
        "[H] §2",
        "accuracy lost without the heads of the highest function-vector effect minus that lost "
        "without those of the highest prefix matching, each beyond random heads of the same layers "
        "and without heads that are both, over all shares of heads",
        "accuracy",
        partial(
            without_rather,
            score="function_vector without prefix_matching",
            instead="prefix_matching without function_vector",
            measure="accuracy",
        ),
        Control.subtracted("induction heads"),
        null=AT_CHANCE,
        form=DISCRIMINATING,
        figure="ablation",
        asked_for=_ASKED_FOR,
    ),
    Claim(
        "recognition_keeps_labels",
        "Task-recognition heads keep answers among the labels",
        "[H] §3",
        "share of answers that are label words: what is lost without the heads of the highest task "
        "recognition minus what is lost without those of the highest task learning, each beyond "
        "random heads of the same layers, over all shares of heads",
        "share of answers",
        partial(
            without_rather,
            score="task_recognition_share",
            instead="task_learning_share",
            measure="in_labels",
        ),
        Control.subtracted("task-learning heads"),
        null=AT_CHANCE,
        form=DISCRIMINATING,
        figure="ablation",
        asked_for=_ASKED_FOR,
    ),
    Claim(
        "learning_chooses_labels",
        "Task-learning heads choose among the labels",
        "[H] §3",
        "accuracy lost without the heads of the highest task learning minus that lost without "
        "those of the highest task recognition, each beyond random heads of the same layers, over "
        "all shares of heads",
        "accuracy",
        partial(
            without_rather,
            score="task_learning_share",
            instead="task_recognition_share",
            measure="accuracy",
        ),
        Control.subtracted("task-recognition heads"),
        null=AT_CHANCE,
        form=DISCRIMINATING,
        figure="ablation",
        asked_for=_ASKED_FOR,
    ),
    Claim(
        "reading_heads_write",
        "Heads that kernel regression finds by their attention are those that copy label words",
        "[H] §4",
        "rank correlation, over heads of the same layer, of label copy with agreement of kernel "
        "regression on the head with the model",
        "rank correlation",
        reads_and_writes,
        Control(
            "kernel regression with weights permuted among demonstrations",
            partial(reads_and_writes, measure="permuted"),
        ),
        form=DISCRIMINATING,
        figure="heads",
        asked_for=_ASKED_FOR,
    ),
    Claim(
        "beta_where_copied",
        "Weights of attention are fitted highest in heads that copy label words",
        "[H] §4",
        "rank correlation, over heads of the same layer, of label copy with β, averaged over "
        "demonstrations",
        "rank correlation",
        fitted_where_copied,
        Control(
            "prefix matching in place of label copy",
            partial(fitted_where_copied, score="prefix_matching"),
        ),
        null="",
        form=DISCRIMINATING,
        figure="heads",
        asked_for=_ASKED_FOR,
    ),
)
