"""Published numbers of the papers, for comparison where model and tasks are the same."""

from collections.abc import Sequence

import polars as pl

from anchorflow.summarize.by_task import AVERAGE

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

# Label loyalty, word loyalty, and accuracy in percent, averaged over tasks; ibid., Table 2.
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
# Accuracy of test texts as they are and as rewritten by GPT-3.5; Han et al. 2025, Table 1.
PERTURBED = {"untouched": 0.805, "typos": 0.534, "rare_words": 0.677, "complex": 0.788}

# Kernel regression compared with exact inference, by number of demonstrations; ibid., Table 3.
CONVERGENCE = {
    "demonstrations": (1, 2, 4, 8, 16, 32, 64, 128),
    "distance": (1.322, 0.942, 0.519, 0.218, 0.163, 0.085, 0.093, 0.083),
    "accuracy": (0.337, 0.532, 0.745, 0.901, 0.926, 0.968, 0.961, 0.964),
}

# The same, Table 2, of GPT-J-6B: method and measure of ours, and the shares of each task.
_KERNEL_TASKS = ("sst2", "mnli", "rotten_tomatoes", "hate", "irony", "offensive")
_KERNEL_TABLE_2 = {
    ("in_context", "accuracy"): (0.805, 0.383, 0.671, 0.539, 0.519, 0.542),
    ("head_held_out", "agreement"): (0.797, 0.597, 0.683, 0.713, 0.722, 0.753),
    ("head_held_out", "accuracy"): (0.750, 0.360, 0.527, 0.587, 0.522, 0.513),
    ("encoder", "accuracy"): (0.503, 0.321, 0.478, 0.548, 0.491, 0.588),
}

_SCHEMA = {"task": pl.String, "method": pl.String, "measure": pl.String, "published": pl.Float64}
_TASKS = ("sst2", "trec", "agnews", "emoc")


def table_1(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[A] Table 1, for a model and tasks named as in ``config/paper.yaml``.

    Returns
    -------
    DataFrame
        Columns ``task``, ``method``, ``measure`` ("accuracy" and "accuracy_gain"), and
        ``published``, as shares; the average only if the tasks are the paper's four.
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
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def table_2(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[A] Table 2, for a model and tasks named as in ``config/paper.yaml``.

    Returns
    -------
    DataFrame
        Columns ``task`` (only the average was published), ``method``, ``measure``, and
        ``published``, as shares; no rows unless the tasks are the paper's four.
    """
    measures = ("label_loyalty", "word_loyalty", "accuracy")
    rows = [
        (AVERAGE, method, measure, percent / 100)
        for method, figures in _TABLE_2.get(model, {}).items()
        for measure, percent in zip(measures, figures, strict=True)
        if set(tasks) == set(_TASKS)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def kernel_table_2(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[K] Table 2, for a model and tasks named as in ``config/paper.yaml``.

    Its "reconstruction of the output" is the agreement of the best head, and its "task
    performance" the accuracy of this head; the encoder is all-MiniLM-L6-v2.

    Returns
    -------
    DataFrame
        Columns ``task``, ``method``, ``measure``, and ``published``, as shares; no average was
        published.
    """
    rows = [
        (task, method, measure, share)
        for (method, measure), shares in _KERNEL_TABLE_2.items()
        for task, share in zip(_KERNEL_TASKS, shares, strict=True)
        if model == "gpt-j-6b" and task in tasks
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
