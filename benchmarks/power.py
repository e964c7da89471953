r"""How many seeds and texts does each claim need? From the measurements of a finished run.

For every claim that a run measured, the variances between seeds and between texts of its effect,
and of the effect's differences from control and null, predict the intervals of other designs. The
table names the comparison that is decided last, its value, and the cheapest design in which its
interval leaves out 0, if values stay as they are. A seed costs as much as ``--fixed`` texts, for
its demonstrations. Tasks are those of the run.

Predictions are for the next run: of a value that is far from 0 by chance, too few seeds are
predicted. ``--error`` is the error rate of an interval; .02 leaves room for the correction over a
run's claims.

    python benchmarks/power.py --run . --model gemma-3-270m
"""

import argparse
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml
from scipy import stats
from snakemake.utils import update_config

from anchorflow.claims.measured import Comparison, measure_claim, over_tasks
from anchorflow.claims.summarize import load_claims, runs_of
from anchorflow.config.configuration import cells_with_shuffled_labels as shuffled_cells
from anchorflow.config.configuration import cells_with_words as worded_cells
from anchorflow.config.configuration import complete_configuration, label_word_sets, twins_of
from anchorflow.config.places import WORKFLOW
from anchorflow.config.stages import NULLS, STAGES, null_reads, read_by_claims, seeds_of
from anchorflow.statistics.estimates import Estimate, components
from anchorflow.store.all_tables import TABLES
from anchorflow.store.parquet import read_tables

SEEDS, TEXTS = (2, 3, 4, 6, 8, 12, 16), (2, 3, 4, 6, 8, 12, 16, 32)


class Spread(NamedTuple):
    """Variances of an effect between seeds and between texts, summed over tasks.

    ``shared`` is that of texts that seeds share, as if seeds of another design shared as large a
    part of theirs. ``tasks`` are as
    many as would vary alike (Satterthwaite): one, if a single task makes most of the variance.
    """

    seeds: float
    texts: float
    tasks: float
    shared: float = 0.0

    @classmethod
    def of(cls, estimate: Estimate) -> "Spread":
        """From the components of an estimate with S seeds of T texts, on average."""
        seeds = texts = shared = 0.0
        between = []
        for stratum in estimate.strata:
            found = components(estimate.values, stratum)
            count = len(stratum.texts)
            of_shared = float(found.shared_texts.variance[0])
            covariance = of_shared * (count - 1) / count  # as it is in the variance within seeds
            within = max(float(found.within_seeds.variance[0]) - covariance, 0.0)
            shared += of_shared * len(np.unique(np.concatenate(stratum.texts)))
            between.append(float(np.nan_to_num(found.between_seeds.variance[0])))
            excess = between[-1] - within
            seeds += max(excess, 0.0) * count
            texts += within * sum(map(len, stratum.texts))
        squares = sum(variance**2 for variance in between)
        alike = sum(between) ** 2 / squares if squares else len(between)
        return cls(seeds, texts, alike, shared)

    def half_width(self, seeds: int, texts: int, error: float) -> float:
        """Half of the interval with so many seeds, and so many texts of each."""
        variance = self.seeds / seeds + self.texts / (seeds * texts) + self.shared / (seeds * texts)
        freedom = max(self.tasks, 1) * (seeds - 1)
        width = float(stats.t.isf(error / 2, freedom) * np.sqrt(variance))
        # Where nothing varies, the interval is that of a rare difference.
        return width or -np.log(error) / (seeds * texts * max(self.tasks, 1) + 2)


def cheapest(value: float, spread: Spread, fixed: float, error: float) -> tuple[int, int] | None:
    """Seeds, and texts of each, of the cheapest design that leaves 0 out; None if none does."""
    designs = [
        (seeds * (fixed + texts), seeds, texts)
        for seeds, texts in product(SEEDS, TEXTS)
        if spread.half_width(seeds, texts, error) < abs(value)
    ]
    return min(designs)[1:] if designs else None


def tables_of(
    run: Path, model: str, config: Mapping[str, Any]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The tables that claims read, by argument, as far as the run has them."""
    reads = {name: (read, "") for name, read in read_by_claims().items()}
    for null in NULLS:
        reads |= {name: (read, null) for name, read in null_reads(null, config["controls"]).items()}
    if label_word_sets(config):
        reads["worded_predictions"] = ("attention/predictions", "worded")
    for name, (read, null) in reads.items():
        stage, _, file = read.partition("/")
        table, pattern = {inner: rest for inner, *rest in STAGES[stage].files()}[file]
        models = twins_of(model, config) if null == "untrained" else [model]
        tasks = {"shuffled": shuffled_cells, "worded": worded_cells}.get(null, lambda c: c["tasks"])
        seeds = seeds_of(stage, config, null if null in NULLS else "")
        files: Iterable[Path] = dict.fromkeys(
            run / pattern.format(model=of, task=task, seed=seed)
            for of, task, seed in product(models, tasks(config), seeds)
        )
        if known := [path for path in files if path.is_file()]:
            yield name, read_tables(known, TABLES[table])


def last_decided(comparisons: Iterable[Comparison], error: float) -> tuple[Comparison, Spread]:
    """The comparison that is the least clear, and its spread."""
    known = [(each, Spread.of(each.value)) for each in comparisons]
    return min(known, key=lambda of: abs(of[0].value.values[0]) / of[1].half_width(4, 8, error))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, default=Path(), help="the folder of a finished run")
    parser.add_argument(
        "--configuration", type=Path, nargs="+", default=[Path("config/config.yaml")]
    )
    parser.add_argument("--model", required=True, help="its name in the configuration")
    parser.add_argument("--fixed", type=float, default=4, help="cost of a seed, in texts")
    parser.add_argument("--error", type=float, default=0.02)
    arguments = parser.parse_args()
    config: dict[str, Any] = {}
    with contextlib.chdir(arguments.run):
        for file in arguments.configuration:
            update_config(config, yaml.safe_load(file.read_text(encoding="utf-8")))
        complete_configuration(config, WORKFLOW / "schemas" / "config.schema.yaml")
    tables = dict(tables_of(arguments.run, arguments.model, config))
    runs = runs_of(
        list(config["tasks"]),
        config["isolation"]["variants"][0],
        config["encoder"]["temperature"],
        label_word_sets(config),
        tables,
    )
    print("| claim | least clear | value | with | needs, seeds × texts |")
    print("|---|---|---|---|---|")
    for claim in load_claims():
        measured = over_tasks({task: measure_claim(claim, run) for task, run in runs.items()})
        if not measured.comparisons or measured.comparisons[0].value.one_seed:
            continue
        of, spread = last_decided(measured.comparisons, arguments.error)
        value, seeds = float(of.value.values[0]), measured.seeds
        found = cheapest(value, spread, arguments.fixed, arguments.error)
        needs = f"{found[0]} × {found[1]}" if found else f"more than {SEEDS[-1]} × {TEXTS[-1]}"
        texts = measured.examples / max(seeds * len(measured.draws), 1)
        print(f"| {claim.name} | {of.what} | {value:.2f} | {seeds} × {texts:.0f} | {needs} |")


if __name__ == "__main__":
    main()
