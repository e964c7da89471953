"""Summaries as tables that people read: CSV with all rows, Markdown with the main ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from anchorflow.summaries import AVERAGE
from anchorflow.tables import replacing

_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


def cell(mean: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval, as in "0.61 [0.55, 0.68]"; a dash where undefined."""
    if mean is None:
        return "–"
    if low is None or high is None:
        return f"{mean:.2f}"
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def at_depths(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of five layers of each model, from the first to the last."""
    parts = []
    for (_,), rows in summary.group_by("model", maintain_order=True):
        last = rows["layer"].max()
        assert isinstance(last, int)
        chosen = sorted({int(np.rint(depth * last)) for depth in _DEPTHS})
        parts.append(rows.filter(pl.col("layer").is_in(chosen)))
    return pl.concat(parts)


def pivoted(summary: pl.DataFrame, index: Sequence[str], column: str) -> pl.DataFrame:
    """One row per ``index``, one column per value of ``column``, each cell with its interval.

    A column ``note``, if there is one, follows the interval.
    """
    cells = [cell(*row) for row in summary.select("mean", "low", "high").iter_rows()]
    if "note" in summary.columns:
        cells = [text + (note or "") for text, note in zip(cells, summary["note"], strict=True)]
    return summary.with_columns(pl.Series("cell", cells)).pivot(
        column, index=list(index), values="cell", maintain_order=True
    )


def write_csv(path: str | Path, frame: pl.DataFrame) -> None:
    """Write all rows, whole or not at all."""
    with replacing(path) as temporary:
        frame.write_csv(temporary)


def write_markdown(path: str | Path, title: str, note: str, frame: pl.DataFrame) -> None:
    """Write a title, the table, and a note on how to read it."""
    lines = [
        f"# {title}",
        "",
        "| " + " | ".join(frame.columns) + " |",
        "|" + "---|" * len(frame.columns),
        *("| " + " | ".join(str(value) for value in row) + " |" for row in frame.iter_rows()),
        "",
        note,
    ]
    with replacing(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def tabulate_accuracy(accuracy: pl.DataFrame) -> pl.DataFrame:
    """One row per model and task of ``tables.ACCURACY``."""
    index = ("model", "task", "examples", "seeds", "skipped")
    return pivoted(accuracy, index, "measure")


def tabulate_flow(flow: pl.DataFrame) -> pl.DataFrame:
    """Shares of the three flows at five depths, one row per model, task and layer."""
    shares = flow.filter(pl.col("scale") == "proportion")
    return pivoted(at_depths(shares), ("model", "task", "examples", "skipped", "layer"), "flow")


def tabulate_loyalty(loyalty: pl.DataFrame) -> pl.DataFrame:
    """The four measures averaged over tasks, one row per model and way to isolate."""
    averaged = loyalty.filter(pl.col("task") == AVERAGE)
    return pivoted(averaged, ("model", "variant", "layers", "side", "positions"), "measure")


def tabulate_deep(deep: pl.DataFrame) -> pl.DataFrame:
    """AUCROC_l and R_l at five depths, one row per model, task and layer."""
    return pivoted(at_depths(deep), ("model", "task", "layer", "unpredicted"), "measure")


def tabulate_performance(performance: pl.DataFrame) -> pl.DataFrame:
    """One row per model, measure and method, a column per task, as [A] Table 1.

    Published figures follow ours, where there are any; skipped prompts stand behind the accuracy.
    """
    index = ("model", "measure", "method")
    count = pl.format(" ({} skipped)", "skipped")
    noted = (pl.col("skipped") > 0) & (pl.col("measure") == "accuracy")
    ours = pivoted(performance.with_columns(note=pl.when(noted).then(count)), index, "task")
    published = performance.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    both = pl.concat([ours, pivoted(published, index, "task")], how="diagonal").fill_null("–")
    measures = performance["measure"].unique(maintain_order=True).to_list()
    order = {name: place for place, name in enumerate(measures)}
    return both.sort("model", pl.col("measure").replace_strict(order), maintain_order=True)


def tabulate_retention(retention: pl.DataFrame) -> pl.DataFrame:
    """The measures averaged over tasks, one row per model, method and share, as [A] Table 2."""
    averaged = retention.filter(pl.col("task") == AVERAGE)
    named = averaged.with_columns(
        pl.col("share").cast(pl.String).fill_null("–"),
    )
    index = ("model", "method", "share")
    ours = pivoted(named, index, "measure")
    published = averaged.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        share=pl.lit("–"),
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    return pl.concat([ours, pivoted(published, index, "measure")], how="diagonal").fill_null("–")


def tabulate_timing(timing: pl.DataFrame, retention: pl.DataFrame) -> pl.DataFrame:
    """One row per model, task and way to answer queries, as [A] Table 3, with what it predicts."""
    plain = timing.filter(pl.col("way") == "full_prompt")
    speeds = timing.join(
        plain.select("model", "task", pl.col("milliseconds").alias("plain")), on=["model", "task"]
    )
    of_way = {"full_prompt": "full"}
    measured = (
        retention.filter(
            pl.col("share").is_null(),
            pl.col("measure").is_in(["accuracy", "label_loyalty"]),
        )
        .pipe(pivoted, ("model", "task", "method"), "measure")
        .rename({"method": "measured", "label_loyalty": "label loyalty"})
    )
    rows = speeds.with_columns(pl.col("way").replace(of_way).alias("measured")).join(
        measured, on=["model", "task", "measured"], maintain_order="left"
    )
    milliseconds = [
        f"{_three_digits(mean)} [{_three_digits(low)}, {_three_digits(high)}]"
        for mean, low, high in rows.select("milliseconds", "low", "high").iter_rows()
    ]
    return (
        rows.select(
            "model",
            "task",
            "way",
            "accuracy",
            "label loyalty",
            pl.Series("ms", milliseconds),
            (pl.col("plain") / pl.col("milliseconds")).round(2).alias("times as fast"),
            pl.col("build").round_sig_figs(3).alias("build (ms)"),
            pl.col("break_even").ceil().cast(pl.Int64).alias("break-even (queries)"),
            "kept",
            (pl.col("kept_bytes") / 1e6).round(2).alias("kept (MB)"),
            pl.col("prompt_tokens").round(0).cast(pl.Int64).alias("prompt (tokens)"),
            pl.col("batch_size").alias("batch"),
            "device",
            "threads",
        )
        .cast(pl.String)
        .fill_null("–")
    )


def _three_digits(value: float) -> str:
    """A number with three significant digits, or all those before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def tabulate_confusion(confusion: pl.DataFrame) -> pl.DataFrame:
    """The rank correlation at five depths, one row per model and layer.

    A column for each task that has one in some layer, and for the average.
    """
    correlation = confusion.filter(pl.col("measure") == "correlation")
    defined = correlation.filter(pl.col("mean").is_not_null())["task"]
    shown = correlation.filter((pl.col("task") == AVERAGE) | pl.col("task").is_in(defined.unique()))
    return pivoted(at_depths(shown), ("model", "layer"), "task").fill_null("–")
