"""The table of in-context learning compared with regressions."""

from anchorflow.analyses.regressors.tabulate import tabulate_regressors
from anchorflow.statistics.by_task import AVERAGE
from constructed.kernel import regressors_summary as summary


def test_the_table_names_every_method() -> None:
    rows = tabulate_regressors(summary()).table
    assert rows.filter(measure="accuracy")["method"].to_list() == [
        "in context",
        "encoder",
        "encoder logistic",
        "head chosen here",
        "head held out",
    ]
    assert AVERAGE in rows.columns


def test_published_rows_follow_ours_of_the_same_measure() -> None:
    rows = tabulate_regressors(summary(model="gpt-j-6b", task="sst2")).table
    accuracy = rows.filter(measure="accuracy")
    assert accuracy["method"].to_list()[-3:] == [
        "in context (published)",
        "encoder (published)",
        "head held out (published)",
    ]
    assert accuracy["sst2"].to_list()[-3:] == ["0.81", "0.50", "0.75"]
    assert set(accuracy[AVERAGE].to_list()[-3:]) == {"–"}
