"""Changes of accuracy, in part because the model no longer does the task.

Label probabilities compare label words with one another, so a prediction may be right although
another token is likelier than all of them.
"""

from collections.abc import Sequence

import polars as pl

from anchorflow.schemas.measures import ACCURACY_CHANGES, ACCURACY_GAINS, IN_VOCABULARY

CHANGES, GAINS, VOCABULARY = (
    tuple(measure.name for measure in measures)
    for measures in (ACCURACY_CHANGES, ACCURACY_GAINS, IN_VOCABULARY)
)
ACCURACY = (pl.col("prediction") == pl.col("label")).cast(pl.Float64)
_KNOWN = (*ACCURACY_CHANGES, *ACCURACY_GAINS, *IN_VOCABULARY)
BOUNDS = {measure.name: measure.bounds for measure in _KNOWN}
DETAILS = tuple(measure.name for measure in _KNOWN if measure.in_full)


def accuracy_changes(names: Sequence[str], before: str, was_in_labels: str) -> dict[str, pl.Expr]:
    """A change of accuracy and its two parts, which add up to it, for every prediction.

    Each is 1 where a prediction becomes right, -1 where it becomes wrong, and else 0. The model
    loses the task where the likeliest token was the first of a label word and no longer is; where
    this is not so, a changed prediction is another choice among labels. The parts are null where
    ``in_labels`` is.

    ``names`` is ``CHANGES`` or ``GAINS``. The columns ``before`` and ``was_in_labels`` are
    ``prediction`` and ``in_labels`` in the run that is compared with.
    """
    difference = ACCURACY - (pl.col(before) == pl.col("label")).cast(pl.Float64)
    lost = pl.col(was_in_labels) > pl.col("in_labels")  # true and then false; null if either is
    return dict(zip(names, (difference, difference * lost, difference * ~lost), strict=True))
