"""Whether label words suffice in late layers (after [A] §2)."""

import polars as pl

from anchorflow.analyses.cutoff.summarize import cutoff_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import EFFECT_RETAINED, difference_by_seed
from anchorflow.depth import last_third

READS = ("cutoff",)


def seen_over_random(run: Run) -> Sampled:
    """Retained with label words seen minus with equally many other tokens, last third."""
    rows = run.rows("cutoff")
    depth = int(rows["layer"].to_numpy().max())
    begin = last_third(depth).start
    if rows.filter(sees="first", layer=0).is_empty():
        raise NotMeasured(
            "the run does not leave all demonstrations out (cutoff.sees lacks first)",
            table="cutoff",
        )
    layer = rows.filter(pl.col("layer") >= begin)["layer"].to_numpy().min()
    if layer == depth:
        raise NotMeasured("the run leaves no demonstrations out in the last third (cutoff.every)")
    settings = [{"sees": sees, "layer": int(layer)} for sees in ("label", "random")]
    return difference_by_seed(cutoff_measures(rows), settings[:1], settings[1:], "retained")


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
