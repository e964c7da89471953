"""The table of in-context learning beside regressions."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.regressors import tabulate_regressors
from constructed.regressors import summary


def test_the_table_names_every_method() -> None:
    rows = tabulate_regressors(summary()).table
    assert rows.filter(pl.col("measure") == "accuracy")["method"].to_list() == [
        "in context",
        "encoder",
        "encoder logistic",
        "head chosen here",
        "head held out",
    ]
    assert AVERAGE in rows.columns
