"""Published results on compression, for comparison where model and tasks are the paper's."""

from collections.abc import Sequence

import polars as pl

from anchorflow.statistics.by_task import AVERAGE, PUBLISHED

# Label loyalty, word loyalty, and accuracy, in percent, averaged over tasks.
# Source: Wang et al. 2023, Table 2.
_TABLE_2 = {
    "gpt2-xl": {
        "full": (100.00, 100.00, 51.90),
        "text_anchor": (51.05, 36.65, 38.77),
        "hidden_random": (48.96, 5.59, 39.96),
        "hidden_random_oracle": (57.52, 4.49, 41.72),
        "hidden_anchor": (79.47, 62.17, 45.04),
    },
    "gpt-j-6b": {
        "full": (100.00, 100.00, 56.82),
        "text_anchor": (53.45, 43.85, 40.83),
        "hidden_random": (49.03, 2.16, 31.51),
        "hidden_random_oracle": (71.10, 11.36, 52.34),
        "hidden_anchor": (89.06, 75.04, 55.59),
    },
}


_TASKS = ("sst2", "trec", "agnews", "emoc")


def table_2(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[A] Table 2, for a model and tasks named as in ``config/paper.yaml``.

    The values are shares. Single tasks were not published, so only the average has rows, and only
    if the tasks are the paper's four.
    """
    measures = ("label_loyalty", "word_loyalty", "accuracy")
    rows = [
        (AVERAGE, method, measure, percent / 100)
        for method, figures in _TABLE_2.get(model, {}).items()
        for measure, percent in zip(measures, figures, strict=True)
        if set(tasks) == set(_TASKS)
    ]
    return pl.DataFrame(rows, schema=PUBLISHED, orient="row")
