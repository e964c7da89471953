"""Attention heads: which are needed, and whether scores agree.

[H] stands for work on attention heads: section 1 for label copy (Cho et al. 2025), 2 for function
vectors and induction heads (Yin and Steinhardt 2025), 3 for task recognition and task learning
(Yang et al. 2025), and 4 for the agreement of scores.
"""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.ablation.summarize import ablation_measures
from anchorflow.analyses.heads.summarize import head_matrix, ranks_agree, with_difference
from anchorflow.analyses.kernel.summarize import head_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import (
    DISCRIMINATING,
    UNTRAINED,
    Claim,
    Control,
    NotMeasured,
    Run,
    Sampled,
)
from anchorflow.claims.effects import difference_by_seed
from anchorflow.config.cell_names import is_untrained
from anchorflow.random_draws import halves
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean

READS = (
    "heads",
    "ablation",
    "kernel",
    "kernel_predictions",
    "reweighting_beta",
)

_UNHELPFUL = "demonstrations do not raise accuracy in this task, so heads have nothing to lose"


def without_heads(run: Run, score: str, measure: str, instead: str = "") -> Sampled:
    """A measure without other heads minus that without the heads of the highest scores.

    The mean over all shares. Other heads are random ones of the same layers, or those of the score
    ``instead``.

    Raises
    ------
    NotMeasured
        If the run takes none of them away, or demonstrations do not help the model. Those of an
        untrained network help by chance alone, and it is compared in either case.
    """
    rows = ablation_measures(run.rows("ablation"))
    means = dict(rows.group_by("score").agg(pl.col("accuracy").mean()).iter_rows())
    if means["none"] <= means["alone"] and not is_untrained(rows["model"][0]):
        raise NotMeasured(_UNHELPFUL)
    taken = rows.filter(pl.col("score").is_in([score, instead or score]))
    missing = {score, instead or score} - set(taken["score"])
    if missing:
        name = min(missing)
        raise NotMeasured(
            f"the run does not take away the heads of the highest {name}",
            f"ablation: {{scores: [{name}]}}",
        )
    # At the target, where predictions are made, if the run has it; by the mean, likewise.
    where = "target" if "target" in set(taken["where"]) else taken["where"][0]
    by = "mean" if "mean" in set(taken["by"]) else taken["by"][0]
    common = [{"where": where, "by": by, "share": share} for share in sorted(set(taken["share"]))]
    less = [{**of, "score": score, "control": False} for of in common]
    other = {"score": instead or score, "control": not instead}
    return difference_by_seed(taken, [{**of, **other} for of in common], less, measure)


def _of_score(run: Run, score: str) -> dict[int, pl.DataFrame]:
    """Rows of one score by seed.

    Raises
    ------
    NotMeasured
        If the run does not have it.
    """
    seeds = {seed: rows.filter(score=score) for seed, rows in run.by_seed("heads").items()}
    found = {seed: rows for seed, rows in seeds.items() if not rows.is_empty()}
    if not found:
        raise NotMeasured(
            f"the run does not score heads by {score}",
            "heads: {scores: [prefix_matching, writing]}",
        )
    return found


def cancels(run: Run) -> Sampled:
    """Minus the label copy of the head that has the lowest on the other half of the texts."""
    seeds = {}
    for seed, rows in _of_score(run, "label_copy").items():
        values = head_matrix(with_difference(rows), "difference")
        texts = texts_of(rows)
        half = halves(rows["example"], seed).sort("example")["half"].to_numpy()
        if len(set(half.tolist())) < 2:
            continue
        lowest = [values[half != part].mean(0).argmin() for part in (0, 1)]
        held_out = np.where(half == 0, values[:, lowest[0]], values[:, lowest[1]])
        seeds[seed] = SeedStatistic(weighted_mean(-held_out[:, None]), texts)
    if not seeds:
        raise NotMeasured("there are no texts to score a head on that it was not chosen on")
    return Sampled(seeds)


def reads_and_writes(run: Run, measure: str = "agreement") -> Sampled:
    """Rank correlation over heads of label copy with agreement as kernel regression."""
    kernel = run.rows("kernel").filter(weights="max")
    of_model = run.by_seed("kernel_predictions")
    agreement = {
        seed: head_measures(kernel.filter(seed=seed), rows.sort("example"))[measure].mean(0)
        for seed, rows in of_model.items()
    }
    return _over_heads(_of_score(run, "label_copy"), agreement)


def fitted_where_copied(run: Run, score: str = "label_copy") -> Sampled:
    """Rank correlation over heads of a score with β, averaged over demonstrations."""
    means = {}
    for seed, rows in run.by_seed("reweighting_beta").items():
        of_heads = rows.group_by("layer", "head").agg(pl.col("beta").mean()).sort("layer", "head")
        means[seed] = of_heads["beta"].to_numpy()
    return _over_heads(_of_score(run, score), means)


def _over_heads(scores: dict[int, pl.DataFrame], others: dict[int, Array]) -> Sampled:
    """Rank correlation over heads of mean scores with other values of heads, by seed."""
    seeds = {}
    for seed, rows in scores.items():
        if seed in others:
            values = head_matrix(with_difference(rows), "difference")
            statistic = partial(_agreement, values, others[seed])
            seeds[seed] = SeedStatistic(statistic, texts_of(rows))
    if not seeds:
        raise NotMeasured("heads are scored for other seeds than those of what is compared")
    return Sampled(seeds)


def _agreement(values: Array, others: Array, weights: Array) -> Array:
    means = weighted_mean(values)(weights)
    both = np.concatenate([means, np.broadcast_to(others, means.shape)], -1)
    return ranks_agree(both)


_SUBTRACTED = "random heads of the same layers, already subtracted in the effect"

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
        Control(_SUBTRACTED),
        UNTRAINED,
        DISCRIMINATING,
        figure="ablation",
        question="Are the heads that copy label words needed?",
    ),
    Claim(
        "cancelling_heads_exist",
        "Some heads write against the labels that they attend to",
        "[H] §1",
        "minus the label copy, beyond matched tokens of the texts, of the head with the lowest, "
        "chosen on the other half of the texts",
        "logits",
        cancels,
        Control("matched tokens of the texts, already subtracted in the effect"),
        UNTRAINED,
        DISCRIMINATING,
        place=1,
        figure="heads",
    ),
    Claim(
        "function_vectors_over_induction",
        "Function-vector heads matter more than induction heads",
        "[H] §2",
        "accuracy without the heads of the highest prefix matching minus that without the heads of "
        "the highest function-vector effect, over all shares of heads",
        "accuracy",
        partial(
            without_heads,
            score="function_vector",
            measure="accuracy",
            instead="prefix_matching",
        ),
        Control("induction heads, already subtracted in the effect"),
        UNTRAINED,
        DISCRIMINATING,
        figure="ablation",
    ),
    Claim(
        "recognition_keeps_labels",
        "Task-recognition heads keep answers among the labels",
        "[H] §3",
        "share of answers that are label words without random heads of the same layers minus that "
        "without the heads of the highest task recognition, over all shares of heads",
        "share of answers",
        partial(without_heads, score="task_recognition_share", measure="in_labels"),
        Control(_SUBTRACTED),
        UNTRAINED,
        DISCRIMINATING,
        figure="ablation",
    ),
    Claim(
        "learning_chooses_labels",
        "Task-learning heads choose among the labels",
        "[H] §3",
        "accuracy without random heads of the same layers minus that without the heads of the "
        "highest task learning, over all shares of heads",
        "accuracy",
        partial(without_heads, score="task_learning_share", measure="accuracy"),
        Control(_SUBTRACTED),
        UNTRAINED,
        DISCRIMINATING,
        place=1,
        figure="ablation",
    ),
    Claim(
        "reading_heads_write",
        "Heads that kernel regression finds by their attention are those that copy label words",
        "[H] §4",
        "rank correlation over heads of label copy with agreement of kernel regression on the head "
        "with the model",
        "rank correlation",
        reads_and_writes,
        Control(
            "kernel regression with weights permuted among demonstrations",
            partial(reads_and_writes, measure="permuted"),
        ),
        UNTRAINED,
        DISCRIMINATING,
        figure="heads",
    ),
    Claim(
        "beta_where_copied",
        "Weights of attention are fitted highest in heads that copy label words",
        "[H] §4",
        "rank correlation over heads of label copy with β, averaged over demonstrations",
        "rank correlation",
        fitted_where_copied,
        Control(
            "prefix matching in place of label copy",
            partial(fitted_where_copied, score="prefix_matching"),
        ),
        form=DISCRIMINATING,
        place=1,
        figure="heads",
    ),
)
