"""Which heads are needed ([H] §1 to §3)."""

from functools import partial

import polars as pl

from anchorflow.analyses.ablation.summarize import ablation_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import difference_by_seed, minus

READS = ("ablation",)

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


_needed = partial(
    Claim,
    null=AT_CHANCE,
    form=DISCRIMINATING,
    figure="ablation",
    asked_for={"ablation": "ablation: {scores: [label_copy]}"},
)

CLAIMS = (
    _needed(
        "label_copy_is_needed",
        "Heads that copy label words are needed: accuracy falls more without them than without "
        "random heads",
        "[H] §1",
        "accuracy without random heads of the same layers minus that without the heads of the "
        "highest label copy, chosen on other texts, over all shares of heads",
        "accuracy",
        lambda run: without_heads(run, "label_copy", "accuracy"),
        Control.subtracted("random heads of the same layers"),
        question="Are the heads that copy label words needed?",
    ),
    _needed(
        "function_vectors_over_induction",
        "Function-vector heads matter more than induction heads",
        "[H] §2",
        "accuracy lost without the heads of the highest function-vector effect minus that lost "
        "without those of the highest prefix matching, each beyond random heads of the same layers "
        "and without heads that are both, over all shares of heads",
        "accuracy",
        lambda run: without_rather(
            run,
            "function_vector without prefix_matching",
            "prefix_matching without function_vector",
            "accuracy",
        ),
        Control.subtracted("induction heads"),
    ),
    _needed(
        "recognition_keeps_labels",
        "Task-recognition heads keep answers among the labels",
        "[H] §3",
        "share of answers that are label words: what is lost without the heads of the highest task "
        "recognition minus what is lost without those of the highest task learning, each beyond "
        "random heads of the same layers, over all shares of heads",
        "share of answers",
        lambda run: without_rather(
            run, "task_recognition_share", "task_learning_share", "in_labels"
        ),
        Control.subtracted("task-learning heads"),
    ),
    _needed(
        "learning_chooses_labels",
        "Task-learning heads choose among the labels",
        "[H] §3",
        "accuracy lost without the heads of the highest task learning minus that lost without "
        "those of the highest task recognition, each beyond random heads of the same layers, over "
        "all shares of heads",
        "accuracy",
        lambda run: without_rather(
            run, "task_learning_share", "task_recognition_share", "accuracy"
        ),
        Control.subtracted("task-recognition heads"),
    ),
)
