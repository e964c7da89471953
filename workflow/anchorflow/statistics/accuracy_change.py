"""Changes of accuracy, in part because the model no longer does the task.

Label probabilities compare label words with one another, so a prediction may be right although
another token is likelier than all of them.
"""

from collections.abc import Sequence

import polars as pl

from anchorflow.statistics.by_task import DIFFERENCE, SHARE

VOCABULARY = ("label_mass", "in_labels")
ACCURACY = (pl.col("prediction") == pl.col("label")).cast(pl.Float64)


# A change and its two parts.
CHANGES = ("accuracy_change", "accuracy_change_losing_task", "accuracy_change_other_label")
GAINS = ("accuracy_gain", "accuracy_gain_losing_task", "accuracy_gain_other_label")
BOUNDS = {**dict.fromkeys((*CHANGES, *GAINS), DIFFERENCE), **dict.fromkeys(VOCABULARY, SHARE)}
DETAILS = ("label_mass", *CHANGES[1:], *GAINS[1:])  # left out of tables for reading


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
