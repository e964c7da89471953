"""The page across published runs: what is learnt, claims by model, papers' numbers, and costs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.analyses.compression.summarize import table_2
from anchorflow.analyses.reweighting.summarize import table_1
from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import (
    FAILS,
    MIXED,
    NOT_MEASURED,
    NOT_SUPPORTED,
    SIGN_OF,
    SUPPORTED,
    UNCLEAR,
    UNTRAINED_TOO,
)
from anchorflow.present.page import cell
from anchorflow.statistics.by_task import AVERAGE
from tools.document.markdown import page, readable
from tools.document.published_disputes import across, claims_of
from tools.document.published_run import MEASURES, PAPERS, asked_of, tasks_of
from tools.document.runs import KeptRun, with_cells

_LEARNT_FROM = ("gemma-3-270m", "smollm2-135m", "qwen2.5-coder-1.5b")  # in the order of learnt.md


def page_across(folder: Path) -> str:
    """The page across all runs: what is learnt, claims by model, the papers' numbers, costs."""
    found = sorted(file.parent for file in folder.glob("*/run.json"))
    runs = {of_run.name: KeptRun.read(of_run) for of_run in found}
    claims = {name: _claims(run) for name, run in runs.items()}
    groups = _by_group(claims)
    columns = ["claim", "source", *runs]
    return page(
        "across.md",
        runs=runs,
        groups={
            title: readable(pl.DataFrame(groups[title], schema=columns, orient="row"))
            for title in _GROUPS
            if title in groups
        },
        questions=readable(_questions(runs)),
        beside=readable(_beside(runs)),
        costs=readable(_hours(runs)),
        learnt=_learnt(claims) if set(_LEARNT_FROM) <= claims.keys() else "",
        disputes=_disputes(runs),
        contested=_contested(runs),
    )


def _learnt(claims: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The text on what is learnt, which quotes effects of claims in the models that it names."""

    def quoted(claim: str, number: Callable[[Mapping[str, Any]], str]) -> str:
        return _listed([number(claims[model][claim]) for model in _LEARNT_FROM])

    return page(
        "learnt.md",
        effects=lambda claim: quoted(claim, _number),
        untrained=lambda claim: quoted(claim, lambda row: cell(-row["over_null"], None, None)),
    )


def _disputes(runs: Mapping[str, KeptRun]) -> dict[str, str]:
    """Tables of what the models' second runs found, by heading: claims first, then numbers."""
    second = {model: run.disputes for model, run in runs.items() if run.disputes}
    if not second:
        return {}
    found = {model: claims_of(run) for model, run in second.items()}
    rows = {
        model: {row["claim"]: row for row in claims.iter_rows(named=True)}
        for model, claims in found.items()
    }
    several = pl.concat(found.values(), how="diagonal_relaxed")
    declared = several.unique("claim", keep="first", maintain_order=True)
    lines = [
        [row["statement"], row["source"], *(_verdict(of.get(row["claim"])) for of in rows.values())]
        for row in declared.iter_rows(named=True)
    ]
    verdicts = pl.DataFrame(lines, schema=["claim", "source", *rows], orient="row")
    compared = declared.select(claim="statement", effect="compared", control="control")
    return {
        "Verdicts": readable(verdicts),
        **across(second),
        "Effects and controls": readable(compared),
    }


def _contested(runs: Mapping[str, KeptRun]) -> str:
    """The text on the disputes, which quotes the models' second runs, if it has all of them."""
    second = {model: runs[model].disputes for model in _LEARNT_FROM if model in runs}
    known = {model: run for model, run in second.items() if run}
    if len(known) < len(_LEARNT_FROM):
        return ""
    claims = {model: _claims(run) for model, run in known.items()}

    def quoted(
        claim: str, number: Callable[[Mapping[str, Any]], str], models: Sequence[str]
    ) -> str:
        return _listed([number(claims[model][claim]) for model in models or known])

    def of_average(table: str, **conditions: Any) -> list[pl.DataFrame]:
        return [run.rows(table, task=AVERAGE, **conditions) for run in known.values()]

    return page(
        "contested.md",
        effects=lambda claim, *of: quoted(claim, _number, of),
        controls=lambda claim, *of: quoted(
            claim, lambda row: cell(row["control_effect"], None, None), of
        ),
        over_controls=lambda claim, *of: quoted(claim, _over_control, of),
        numbers=lambda *table, **conditions: _listed(
            [with_cells(rows)["cell"].item() for rows in of_average(*table, **conditions)]
        ),
        counts=lambda *table, **conditions: _listed(
            [f"{rows['mean'].item():,.0f}" for rows in of_average(*table, **conditions)]
        ),
    )


def _listed(cells: Sequence[str]) -> str:
    *most, last = cells
    return f"{', '.join(most)}, and {last}" if most else last


def _over_control(row: Mapping[str, Any]) -> str:
    return cell(*(row[f"over_control{end}"] for end in ("", "_low", "_high")))


def _claims(run: KeptRun) -> dict[str, dict[str, Any]]:
    """The claims of a run over its tasks, by name."""
    rows = run.rows("claims", task=AVERAGE).iter_rows(named=True)
    return {row["claim"]: row for row in rows}


def _questions(runs: Mapping[str, KeptRun]) -> pl.DataFrame:
    """What effect and control of each question are that some run has measured."""
    asked = pl.concat([asked_of(run) for run in runs.values()], how="diagonal_relaxed")
    return asked.select("question", effect="compared", control="control").unique(
        maintain_order=True
    )


def _by_group(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, list[list[str]]]:
    """Lines of the claims that some model has measured, by group, most often supported first."""
    found = []
    for claim in load_claims():
        rows = [of_model.get(claim.name) for of_model in claims.values()]
        verdicts = [row["verdict"] if row else None for row in rows]
        if set(verdicts) - {None, NOT_MEASURED}:
            found.append((verdicts, [claim.statement, claim.source, *map(_verdict, rows)]))
    groups: dict[str, list[list[str]]] = {}
    for verdicts, line in sorted(found, key=lambda one: -one[0].count(SUPPORTED)):
        groups.setdefault(_group(verdicts), []).append(line)
    return groups


_GROUPS = (
    "Supported in every model",
    "Supported in some models",
    "Also true without training, or different by task, and supported in no model",
    "Not supported in some models, supported in none",
    "Undecided, or not compared",
)


def _group(verdicts: Sequence[str | None]) -> str:
    if set(verdicts) == {SUPPORTED}:
        return _GROUPS[0]
    if SUPPORTED in verdicts:
        return _GROUPS[1]
    if {UNTRAINED_TOO, MIXED} & {*verdicts}:
        return _GROUPS[2]
    return _GROUPS[3] if NOT_SUPPORTED in verdicts else _GROUPS[4]


def _verdict(row: Mapping[str, Any] | None) -> str:
    """Verdict and effect; below, differences that are not above 0."""
    if row is None or row["effect"] is None:
        return "–"
    lines = [f"{SIGN_OF.get(row['verdict'], '–')} {_number(row)}"]
    for part, name in (("control", "control"), ("null", "untrained")):
        if row[f"{part}_mark"] in (FAILS, UNCLEAR):
            difference = cell(*(row[f"over_{part}{end}"] for end in ("", "_low", "_high")))
            lines.append(f"<small>minus {name}: {difference}</small>")
    return "<br>".join(lines)


def _number(row: Mapping[str, Any]) -> str:
    return cell(row["effect"], row["low"], row["high"])


def _beside(runs: Mapping[str, KeptRun]) -> pl.DataFrame:
    """Averages over the tasks, by model, beside those that the papers have of the same tasks."""
    titles = {
        ("reweighting", "vanilla"): "plain",
        ("reweighting", "many"): "more demonstrations",
        ("reweighting", "reweighted"): "re-weighted",
        ("compression", "hidden_anchor"): "anchors",
        ("compression", "text_anchor"): "anchors as text",
        ("compression", "hidden_random"): "random tokens for label words",
    }
    rows = {
        (*of, measure): f"{measure.replace('_', ' ')}, {title}"
        for of, title in titles.items()
        for measure in (MEASURES if of[0] == "compression" else MEASURES[-1:])
    }
    columns = {"average over data sets": list(rows.values())}
    for model, run in runs.items():
        columns[model] = [_averages(run).get(key, "–") for key in rows]
    for paper, title in PAPERS.items():
        known = _published_averages(paper, [tasks_of(run) for run in runs.values()])
        columns[f"{title}, published"] = [known.get(key, "–") for key in rows]
    return pl.DataFrame(columns)


_Key = tuple[str, str, str]  # table, method, measure


def _averages(run: KeptRun) -> dict[_Key, str]:
    averages = {}
    for name in {"reweighting", "compression"} & run.tables.keys():
        rows = run.rows(name, task=AVERAGE)
        if "share" in rows.columns:
            rows = rows.filter(pl.col("share").is_null())
        for row in rows.iter_rows(named=True):
            number = cell(row["mean"], row["low"], row["high"])
            averages[name, row["method"], row["measure"]] = number
    return averages


def _published_averages(paper: str, tasks: Sequence[Sequence[str]]) -> dict[_Key, str]:
    """A paper's averages, if all runs are of the tasks that it averages over."""
    averages = {}
    for name, numbers_of in (("reweighting", table_1), ("compression", table_2)):
        if all(not numbers_of(paper, of_run).filter(task=AVERAGE).is_empty() for of_run in tasks):
            for row in numbers_of(paper, tasks[0]).filter(task=AVERAGE).iter_rows(named=True):
                number = cell(row["published"], None, None)
                averages[name, row["method"], row["measure"]] = number
    return averages


def _hours(runs: Mapping[str, KeptRun]) -> pl.DataFrame:
    """CPU hours by analysis and model, without analyses that round to 0 for all models."""
    parts = [
        run.tables["costs"].select(
            "analysis", pl.lit(model).alias("model"), hours=pl.col("cpu_seconds") / 3600
        )
        for model, run in runs.items()
    ]
    wide = pl.concat(parts).pivot("model", index="analysis", values="hours", maintain_order=True)
    hours = pl.exclude("analysis")
    several = wide.filter(pl.any_horizontal(hours >= 0.005))
    last = pl.col("analysis") == "all"
    ordered = pl.concat([several.filter(~last), several.filter(last)])
    return ordered.with_columns(hours.map_elements("{:.2f}".format, return_dtype=pl.String))
