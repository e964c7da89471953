"""The table of a summary without its own module: one row per key, one column per measure."""

from collections.abc import Sequence

import polars as pl

from anchorflow.tabulate.page import Page, pivoted


def tabulate_plain(title: str, note: str, summary: pl.DataFrame, keys: Sequence[str]) -> Page:
    """One row per model and ``keys``, one column per measure.

    Parameters
    ----------
    summary : DataFrame
        Columns ``model``, ``measure``, the keys, ``mean``, ``low``, and ``high``, of all models.
    keys : sequence of str
        Key columns in the order in which they are shown, after the model.
    """
    index = ["model", *(key for key in keys if key not in ("model", "measure"))]
    return Page(title, note, pivoted(summary, index, "measure").fill_null("–"))
