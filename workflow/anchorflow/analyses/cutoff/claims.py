"""Whether label words suffice in late layers (after [A] §2)."""

from collections.abc import Sequence

from anchorflow.analyses.cutoff.summarize import cutoff_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import EFFECT_RETAINED, difference_by_seed
from anchorflow.depth import last_third
from anchorflow.schemas.frames import layers_of

READS = ("cutoff",)


def seen_over_random(run: Run) -> Sampled:
    """Retained with label words seen minus with equally many other tokens, last third."""
    rows = run.rows("cutoff")
    layers = layers_of(rows)
    if rows.filter(sees="first", layer=layers[0]).is_empty():
        raise NotMeasured(
            "the run does not leave all demonstrations out (cutoff.sees lacks first)",
            table="cutoff",
        )
    late = late_cutoffs(layers)
    if not late:
        raise NotMeasured("the run leaves no demonstrations out in the last third (cutoff.every)")
    settings = [{"sees": sees, "layer": late[0]} for sees in ("label", "random")]
    return difference_by_seed(cutoff_measures(rows), settings[:1], settings[1:], "retained")


def late_cutoffs(layers: Sequence[int]) -> list[int]:
    """The cutoffs in the last third of the layers that attend; ``layers`` end with the depth.

    Where cutoffs are not evenly spaced, only some layers attend, and each cutoff stands for equally
    many of these.
    """
    *cutoffs, depth = layers
    every = cutoffs[1] if len(cutoffs) > 1 else depth
    if cutoffs == [*range(0, depth, every)]:
        return [layer for layer in cutoffs if layer >= last_third(depth).start]
    return cutoffs[last_third(len(cutoffs))]


_ASKED_FOR = {"cutoff": "cutoff: {sees: [first, label, random]}"}

CLAIMS = (
    Claim(
        "label_words_suffice_late",
        "In late layers, label words suffice in place of demonstrations, and other tokens do not",
        "[A] §2",
        "effect of the demonstrations retained with only label words seen in the last third of the "
        "layers minus that with equally many other tokens",
        EFFECT_RETAINED,
        seen_over_random,
        Control.subtracted("equally many other tokens"),
        form=DISCRIMINATING,
        figure="cutoff",
        asked_for=_ASKED_FOR,
    ),
)
