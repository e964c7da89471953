r"""What a number format does to the numbers: two finished runs of the same texts, compared.

    python benchmarks/formats.py float32/results bfloat16/results

The runs' configurations differ in the models' ``dtype`` alone. Untrained twins are left out. Prints
Markdown tables: changes of measured quantities, of predictions, and of summaries, the latter in
units of the half-width of the first run's intervals.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from scipy.stats import spearmanr

# Stages with predictions, and where their files lie.
PREDICTED = {
    "attention": "predictions",
    **dict.fromkeys(("isolation", "knockout", "transplant", "compression"), "*"),
    **dict.fromkeys(("retrieval", "reweighting"), "predictions"),
}
ATTENDED = 0.001  # attention below which relative changes are mostly rounding
FLOWS = ("s_wp", "s_pq", "s_ww")
NO_KEYS = {"mean", "low", "high", "examples", "seeds", "skipped", "unpredicted", "model"}


def read(folder: Path, stage: str, model: str, file: str) -> tuple[pl.DataFrame, list[str]]:
    """All rows of a measured table, of the tasks' own label words, and the table's keys."""
    files = sorted((folder / stage / model).glob(f"**/{file}.parquet"))
    rows = pl.concat([pl.read_parquet(path) for path in files])
    keys = (pq.read_schema(files[0]).metadata or {})[b"keys"].decode().split()
    return rows.filter(~pl.col("task").str.contains("+", literal=True)), keys


def joined(first: Path, second: Path, stage: str, model: str, file: str = "*") -> pl.DataFrame:
    """Rows of both runs side by side, those of the second with the ending ``_other``."""
    (rows, keys), (others, _) = (read(run, stage, model, file) for run in (first, second))
    return rows.join(others, on=keys, suffix="_other", nulls_equal=True)


def flows(first: Path, second: Path, model: str) -> list[str]:
    """Relative differences of the flows of a layer, averaged over texts, and rank correlations."""
    pairs = joined(first, second, "flow", model)
    by_layer = pairs.group_by("task", "layer").agg(
        pl.col([*FLOWS, *(f"{flow}_other" for flow in FLOWS)]).mean()
    )
    lines = []
    for flow in FLOWS:
        means, others = (by_layer[name].to_numpy() for name in (flow, f"{flow}_other"))
        positive = means > 0  # S_wp of the last layer is 0
        relative = np.abs(others[positive] - means[positive]) / means[positive]
        correlation = min(
            spearmanr(rows[flow], rows[f"{flow}_other"]).statistic
            for _, rows in by_layer.group_by("task")
        )
        lines.append(
            f"| {flow.replace('s_', 'S_')} of a layer and task | {np.median(relative):.1%} "
            f"| {relative.max():.1%} | {correlation:.3f} |"
        )
    return lines


def heads(first: Path, second: Path, model: str) -> str:
    """Rank correlation, over layers and heads, of attention to label words, and its changes."""
    pairs = joined(first, second, "attention", model, "attention")
    means = pairs.group_by("task", "layer", "head").agg(
        pl.col("attention_label", "attention_label_other").mean()
    )
    before, after = means["attention_label"].to_numpy(), means["attention_label_other"].to_numpy()
    attended = before > ATTENDED
    relative = (np.abs(after - before) / before)[attended]
    correlation = min(
        spearmanr(rows["attention_label"], rows["attention_label_other"]).statistic
        for _, rows in means.group_by("task")
    )
    name = f"attention to label words above {ATTENDED}, of a head and task"
    return f"| {name} | {np.median(relative):.1%} | {relative.max():.1%} | {correlation:.3f} |"


def predictions(first: Path, second: Path, model: str) -> list[str]:
    """Shares of equal predictions, and the largest change of a probability, per stage."""
    lines = []
    for stage, file in PREDICTED.items():
        pairs = joined(first, second, stage, model, file)
        same = (pairs["prediction"] == pairs["prediction_other"]).mean()
        changes = np.abs(
            np.concatenate(pairs["probabilities"].to_list())
            - np.concatenate(pairs["probabilities_other"].to_list())
        )
        lines.append(
            f"| {stage} | {len(pairs):,} | {same:.1%} | {np.median(changes):.3f} "
            f"| {changes.max():.2f} |"
        )
    return lines


def summaries(first: Path, second: Path, model: str) -> list[str]:
    """Differences of every summary in units of the half-width of its interval."""
    lines = []
    for file in sorted(first.glob(f"summaries/*/{model}.parquet")):
        rows, others = (pl.read_parquet(run / file.relative_to(first)) for run in (first, second))
        if not {"mean", "low", "high"} <= set(rows.columns):
            continue
        keys = [
            name
            for name, kind in rows.schema.items()
            if name not in NO_KEYS and not kind.is_nested()
        ]
        pairs = rows.join(others, on=keys, suffix="_other", nulls_equal=True).filter(
            pl.col("high") > pl.col("low"), pl.col("mean_other").is_not_null()
        )
        if pairs.is_empty():
            continue
        units = 2 * (pairs["mean_other"] - pairs["mean"]).abs() / (pairs["high"] - pairs["low"])
        lines.append(
            f"| {file.parent.name} | {len(pairs):,} | {units.median():.2f} "
            f"| {units.quantile(0.95):.2f} | {(units <= 1).mean():.0%} |"
        )
    return lines


def main() -> None:
    """Compare two runs, model by model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    given = parser.parse_args()
    models = sorted(p.name for p in (given.first / "models").iterdir() if "+" not in p.name)
    for model in models:
        print(f"\n{model}\n\n| quantity | median change | largest | lowest rank correlation |")
        print("|---|---|---|---|")
        runs = (given.first, given.second, model)
        print("\n".join([*flows(*runs), heads(*runs)]))
        print("\n| predictions | rows | equal | median change of a probability | largest |")
        print("|---|---|---|---|---|")
        print("\n".join(predictions(*runs)))
        print("\n| summary | numbers | median change in half-widths | 95 % below | within one |")
        print("|---|---|---|---|---|")
        print("\n".join(summaries(*runs)))


if __name__ == "__main__":
    main()
