"""Published numbers on re-weighting, for comparison where model and tasks are the paper's."""

from collections.abc import Sequence

import polars as pl

from anchorflow.statistics.by_task import AVERAGE, PUBLISHED

# Accuracy in percent; Wang et al. 2023, Table 1.
_TABLE_1 = {
    "gpt2-xl": {
        "vanilla": {"sst2": 61.28, "trec": 57.56, "agnews": 73.32, "emoc": 15.44, AVERAGE: 51.90},
        "many": {"sst2": 64.75, "trec": 60.40, "agnews": 52.52, "emoc": 9.80, AVERAGE: 46.87},
        "reweighted": {
            "sst2": 90.07,
            "trec": 60.92,
            "agnews": 81.94,
            "emoc": 41.64,
            AVERAGE: 68.64,
        },
    }
}


def table_1(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[A] Table 1, for a model and tasks named as in ``config/paper.yaml``.

    The values are shares; the average has rows only if the tasks are the paper's four.
    """
    methods = _TABLE_1.get(model, {})
    rows = []
    for method, shares in methods.items():
        complete = set(tasks) == set(shares) - {AVERAGE}
        for task in [*tasks, *([AVERAGE] if complete else [])]:
            if task in shares:
                rows.append((task, method, "accuracy", shares[task] / 100))
                if method != "vanilla":
                    gain = shares[task] - methods["vanilla"][task]
                    rows.append((task, method, "accuracy_gain", gain / 100))
    return pl.DataFrame(rows, schema=PUBLISHED, orient="row")
