"""What anchors retain of full prompts, compared with other methods ([A] Table 2).

Nine claims: three measures of retention, each compared with three methods that keep equally many
tokens.
"""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import UNCHANGED, difference_by_seed, rows_with, sampled
from anchorflow.summarize.retention import retention_measures

READS = ("compression",)

# By the name of what the anchors are compared with: its description and its compression method.
_OTHERS = {
    "text": ("the anchors as text", "text_anchor"),
    "random": ("random tokens for label words", "hidden_random"),
    "random_top": ("the best of several random draws", "hidden_random_top"),
}
# By measure of retention: what is retained, the name of the measure, and its unit.
_RETAINED = {
    "label_loyalty": ("predicted labels", "label loyalty", UNCHANGED),
    "word_loyalty": ("likeliest words", "word loyalty", "Jaccard similarity"),
    "accuracy": ("accuracy", "accuracy", "accuracy"),
}


def anchors_over(run: Run, other: str, measure: str) -> Sampled:
    """A measure of retention with the anchors minus that with another method and equal budget.

    ``hidden_random_top`` is the best of the random draws, chosen on the other half of the texts.

    Raises
    ------
    NotTested
        If one of the methods was not run, or there is only one text.
    """
    measured = retention_measures(run.rows("compression"))
    for method in ("hidden_anchor", other.removesuffix("_top")):
        if rows_with(measured, {"method": method, "share": None}).is_empty():
            raise NotTested(f"compression.methods lacks {method}")
    anchors, others = ({"method": each, "share": None} for each in ("hidden_anchor", other))
    seeds = difference_by_seed(run, measured, anchors, others, measure)
    if not seeds:
        raise NotTested("a single test text leaves no other to choose a draw by")
    return sampled(run, seeds)


CLAIMS: tuple[Claim, ...] = tuple(
    Claim(
        f"anchors_over_{name}_{measure}",
        f"Anchors retain {what} better than {shown}",
        "[A] §3.2, Table 2",
        f"{called} with hidden_anchor minus with {method}"
        + (", chosen on other texts" if name == "random_top" else ""),
        unit,
        partial(anchors_over, other=method, measure=measure),
    )
    for name, (shown, method) in _OTHERS.items()
    for measure, (what, called, unit) in _RETAINED.items()
)
