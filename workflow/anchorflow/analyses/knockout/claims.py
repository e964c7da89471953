"""Whether the answer needs the attention to label words (after [A] §2)."""

from anchorflow.analyses.knockout.summarize import knockout_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import difference_by_seed, rows_with

READS = ("knockout",)


def cut_over_as_heavy(run: Run) -> Sampled:
    """Log odds lost with S_pq's edges cut minus with others of equal attention, last third."""
    changes = knockout_measures(run.rows("knockout"))
    labels, others = (
        {"edges": edges, "band": "last", "control": False}
        for edges in ("label_to_target", "equal_to_target")
    )
    for setting in (labels, others):
        if rows_with(changes, setting).is_empty():
            raise NotMeasured(
                f"the run does not cut {setting['edges']} in the last third (knockout.classes, "
                "knockout.layers)",
                table="knockout",
            )
    return difference_by_seed(changes, [others], [labels], "log_odds_change")


_ASKED_FOR = {
    "knockout": "knockout: {classes: [label_to_target, equal_to_target], layers: [thirds]}"
}

CLAIMS = (
    Claim(
        "cutting_label_words",
        "In late layers, the answer needs the target's attention to label words more than as much "
        "attention to other tokens",
        "[A] §2",
        "decrease of the true label's log odds with the target's attention to label words cut "
        "minus that with as much attention to random other tokens cut, last third of the layers",
        "nats",
        cut_over_as_heavy,
        Control.subtracted("random keys of equal attention"),
        form=DISCRIMINATING,
        figure="knockout",
        asked_for=_ASKED_FOR,
        question="In late layers, does the answer need the attention to label words?",
    ),
)
