"""Whether demonstrations add up ([H] §7)."""

from functools import partial

from anchorflow.analyses.additivity.summarize import answers
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import difference_by_seed

READS = ("additivity",)


def over_one(run: Run, kind: str) -> Sampled:
    """The true label's log odds with composed outputs minus those with one demonstration."""
    rows = answers(run.rows("additivity"))
    if rows.filter(kind=kind).is_empty():
        raise NotMeasured(
            f"the run has no answers of the kind {kind}, as where no label word has the length of "
            "another one (additivity.controls)",
            "additivity: {controls: [deranged]}",
        )
    return difference_by_seed(rows, [{"kind": kind}], [{"kind": "one"}], "log_odds")


CLAIMS = (
    # How well parts are composed is no claim: keys and values of a network without training depend
    # little on other demonstrations, so that its parts add up best. A prompt with one demonstration
    # leans towards its label word, and several balance one another; the control has as many words.
    Claim(
        "demonstrations_add_up",
        "Single demonstrations, added up, answer better than one of them",
        "[H] §7",
        "log odds of the true label with the outputs of all heads at the target composed of "
        "prompts with each demonstration alone, minus the mean with one demonstration",
        "nats",
        partial(over_one, kind="composed"),
        Control(
            "the same, composed of demonstrations with the label words of other classes",
            partial(over_one, kind="deranged"),
        ),
        form=DISCRIMINATING,
        figure="additivity",
        asked_for={"additivity": "additivity: {controls: [other_query, deranged]}"},
    ),
)
