"""The papers' claims as comparisons, and which of them hold for a model.

Each claim is a difference that is above 0 where the claim holds, with a rule that tells.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from anchorflow.claim_effects import (
    NotTested,
    Run,
    Sampled,
    Timed,
    accuracy_over,
    anchors_over,
    auc_rise,
    confusion_told,
    flow_decay,
    flow_over,
    head_over_constant,
    isolation_over,
    late_gain,
    time_saved,
)
from anchorflow.depth import first_third, last_third
from anchorflow.statistics import average
from anchorflow.summaries import AVERAGE, require_examples, summary_table
from anchorflow.tables import CLAIMS, frame_schema
from anchorflow.verdicts import INCONCLUSIVE, NOT_TESTED, verdict

INTERVAL = "bootstrap interval: supported if low > 0, not supported if high <= 0"
QUARTILES = (
    "quartiles: supported if the anchors' upper one is below the full prompts' lower one, not "
    "supported if the anchors' lower one is not below the full prompts' upper one"
)
ALL_TASKS = "quartiles: supported, or not, if it is so in every task that was timed"


class Claim(NamedTuple):
    """One claim: what it says, where, and the difference that tells."""

    name: str
    statement: str
    source: str
    compared: str
    unit: str
    measure: Callable[[Run], Sampled | Timed]
    undefined: str = "no example has a value"  # why the effect may have none
    rule: str = INTERVAL


_SHARE = "share of the three flows"
_LOYALTY = "share of predictions unchanged"
_TELLS_NOTHING = "in no seed does the model predict two labels"
# By the name of what the anchors are compared with: what it is, and its method in compression.
_OTHERS = {
    "text": ("the anchors as text", "text_anchor"),
    "random": ("random tokens for label words", "hidden_random"),
    "random_top": ("the best of several random draws", "hidden_random_top"),
}
_RETAINED = {
    "label_loyalty": ("predicted labels", "label loyalty", _LOYALTY),
    "word_loyalty": ("likeliest words", "word loyalty", "Jaccard similarity"),
    "accuracy": ("accuracy", "accuracy", "accuracy"),
}

REGISTRY = (
    Claim(
        "flow_early",
        "Early, more flows from the texts to the label words than from those to the target",
        "[A] §2.1",
        "S_wp minus S_pq, first third of the layers",
        _SHARE,
        partial(flow_over, more="s_wp", less="s_pq", where=first_third),
    ),
    Claim(
        "flow_decays",
        "The flow from the texts to the label words is stronger early than late",
        "[A] §2.1",
        "S_wp, first third minus last third of the layers",
        _SHARE,
        partial(flow_decay, flow="s_wp"),
    ),
    Claim(
        "flow_late",
        "Late, more flows from the label words to the target than from the texts to them",
        "[A] §2.1",
        "S_pq minus S_wp, last third of the layers",
        _SHARE,
        partial(flow_over, more="s_pq", less="s_wp", where=last_third),
    ),
    Claim(
        "flow_wp_over_ww",
        "Early, more flows to the label words than between other tokens",
        "[A] §2.1",
        "S_wp minus S_ww, first third of the layers",
        _SHARE,
        partial(flow_over, more="s_wp", less="s_ww", where=first_third),
    ),
    Claim(
        "flow_pq_over_ww",
        "Late, more flows from the label words to the target than between other tokens",
        "[A] §2.1",
        "S_pq minus S_ww, last third of the layers",
        _SHARE,
        partial(flow_over, more="s_pq", less="s_ww", where=last_third),
    ),
    Claim(
        "isolation_label_over_random",
        "Early, cutting label words off changes more predictions than cutting random tokens off",
        "[A] §2.2",
        "label loyalty with random tokens isolated minus with label words, in the first N layers",
        _LOYALTY,
        partial(
            isolation_over,
            more={"positions": "random", "side": "first"},
            less={"positions": "label", "side": "first"},
        ),
    ),
    Claim(
        "isolation_first_over_last",
        "Cutting label words off changes more predictions early than late",
        "[A] §2.2",
        "label loyalty with label words isolated in the last N layers minus in the first N",
        _LOYALTY,
        partial(
            isolation_over,
            more={"positions": "label", "side": "last"},
            less={"positions": "label", "side": "first"},
        ),
    ),
    Claim(
        "deep_auc_rises",
        "Attention to the label words tells the model's answer better late than early",
        "[A] §2.3",
        "AUCROC_l, last third minus first third of the layers",
        "AUC",
        auc_rise,
        _TELLS_NOTHING,
    ),
    Claim(
        "deep_gain_late",
        "Most of what attention to the label words tells is gained in the upper half of the layers",
        "[A] §2.3",
        "share of R_l gained in the upper half of the layers, minus 0.5",
        "share of all that is gained",
        late_gain,
        f"{_TELLS_NOTHING}, or attention to the label words does not tell which",
    ),
    Claim(
        "reweighting_over_vanilla",
        "Re-weighting attention to the label words makes answers more accurate",
        "[A] §3.1, Table 1",
        "accuracy re-weighted minus as it is, paired",
        "accuracy",
        partial(
            accuracy_over, table="reweighting", column="method", more="reweighted", less="vanilla"
        ),
    ),
    Claim(
        "reweighting_over_many",
        "Re-weighting does more than the same texts as further demonstrations",
        "[A] §3.1, Table 1",
        "accuracy re-weighted minus with more demonstrations, paired",
        "accuracy",
        partial(
            accuracy_over, table="reweighting", column="method", more="reweighted", less="many"
        ),
    ),
    *(
        Claim(
            f"anchors_over_{name}_{measure}",
            f"Anchors retain {what} better than {shown}",
            "[A] §3.2, Table 2",
            f"{called} with hidden_anchor minus with {method}"
            + (", chosen on other texts" if name == "random_top" else ""),
            unit,
            partial(anchors_over, other=method, measure=measure),
        )
        for name, (shown, method) in _OTHERS.items()
        for measure, (what, called, unit) in _RETAINED.items()
    ),
    Claim(
        "compression_is_faster",
        "Queries are answered faster behind the anchors than with full prompts",
        "[A] §3.2, Table 3",
        "median time per query of full prompts over that with hidden_anchor, minus 1",
        "time with hidden_anchor",
        time_saved,
        rule=QUARTILES,
    ),
    Claim(
        "diagnosis_predicts_confusion",
        "Labels whose keys lie farther apart are told apart better",
        "[A] §3.3, Fig. 6",
        "rank correlation of key distance with pairwise AUC, last third of the layers",
        "Spearman's ρ",
        confusion_told,
        "in no layer are there three pairs of labels whose AUC and distance vary",
    ),
    Claim(
        "heads_reconstruct",
        "Attention of one head, as kernel weights, predicts what the model predicts",
        "[K] §5.1",
        "held-out agreement of the best head minus that of always giving the model's most frequent "
        "answer",
        "share of predictions agreeing",
        head_over_constant,
        "there are no texts to score a head on that it was not chosen on",
    ),
    Claim(
        "retrieval_helps",
        "The nearest training texts are better demonstrations than random ones",
        "[K] §5",
        "accuracy with nearest minus with random demonstrations, paired",
        "accuracy",
        partial(accuracy_over, table="retrieval", column="choice", more="nearest", less="random"),
    ),
)


def summarize_claims(
    tables: Mapping[str, pl.DataFrame],
    tasks: Sequence[str],
    variant: str,
    replicates: int,
    confidence: float,
) -> pl.DataFrame:
    """Effect, interval and verdict of every claim, per task and averaged over tasks.

    Parameters
    ----------
    tables : mapping
        Of one model, all tasks and seeds: ``saliency``, ``isolation``, ``attention``,
        ``predictions``, ``reweighting``, ``compression``, ``timing``, ``diagnosis``, ``kernel``,
        ``retrieval``, and as ``kernel_predictions`` the predictions with the demonstrations of
        ``kernel``.
    tasks : sequence of str
        All tasks of the run, in order.
    variant : str
        Which variant of isolation is taken.

    Returns
    -------
    DataFrame
        Columns of ``tables.CLAIMS``: a row per claim and task and one per claim for the average.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(tables["predictions"])
    runs = [
        Run(
            task,
            {name: rows.filter(pl.col("task") == task) for name, rows in tables.items()},
            variant,
            replicates,
        )
        for task in tasks
    ]
    rows = [row for claim in REGISTRY for row in _rows(claim, runs, confidence)]
    schema = frame_schema(CLAIMS)
    frame = pl.DataFrame(rows, schema={name: schema[name] for name in rows[0]})
    return summary_table(frame, tables["predictions"], CLAIMS)


class _Decision(NamedTuple):
    """The columns of a row that differ from task to task."""

    effect: float | None
    low: float | None
    high: float | None
    examples: int
    seeds: int
    rule: str
    verdict: str
    reason: str | None = None


def _rows(claim: Claim, runs: Sequence[Run], confidence: float) -> list[dict[str, object]]:
    """One claim's row for every task, then that of the average."""
    effects: dict[str, Sampled | Timed] = {}
    decisions: dict[str, _Decision] = {}
    for run in runs:
        try:
            effects[run.task] = claim.measure(run)
            decisions[run.task] = _decide(effects[run.task], claim, confidence)
        except NotTested as why:
            decisions[run.task] = _not_tested(claim, str(why))
    decisions[AVERAGE] = _over_tasks(effects, decisions, claim, confidence)
    told = {
        "claim": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "compared": claim.compared,
        "unit": claim.unit,
    }
    return [{"task": task, **told, **each._asdict()} for task, each in decisions.items()]


def _not_tested(claim: Claim, reason: str) -> _Decision:
    return _Decision(None, None, None, 0, 0, claim.rule, NOT_TESTED, reason)


def _decide(effect: Sampled | Timed, claim: Claim, confidence: float) -> _Decision:
    if isinstance(effect, Timed):
        said = verdict(effect.low, effect.high)
        return _Decision(effect.value, effect.low, effect.high, effect.runs, 1, claim.rule, said)
    # Sums in another order differ from 0 by rounding where nothing differs.
    rounded = effect.effect.map(lambda values: np.round(values, 12) + 0.0)
    counts = (effect.examples, effect.seeds, claim.rule)
    value = float(rounded.values[0])
    if np.isnan(value):
        reason = f"undefined: {claim.undefined}"
        return _Decision(None, None, None, *counts, INCONCLUSIVE, reason)
    low, high = (float(ends[0]) for ends in rounded.interval(confidence))
    unknown = float(np.isnan(rounded.replicates).mean())
    if unknown > 1 - confidence:
        reason = f"undefined in {unknown:.0%} of the replicates"
        if np.isnan(low):
            return _Decision(value, None, None, *counts, INCONCLUSIVE, reason)
        return _Decision(value, low, high, *counts, INCONCLUSIVE, reason)
    return _Decision(value, low, high, *counts, verdict(low, high))


def _over_tasks(
    effects: Mapping[str, Sampled | Timed],
    decisions: Mapping[str, _Decision],
    claim: Claim,
    confidence: float,
) -> _Decision:
    """The mean over the tasks that have a value; those that have none are named."""
    if not effects:
        reasons = dict.fromkeys(str(each.reason) for each in decisions.values())
        return _not_tested(claim, "; ".join(reasons))
    defined = {task: each for task, each in effects.items() if _has_value(each)}
    averaged = list((defined or effects).values())
    timed = [each for each in averaged if isinstance(each, Timed)]
    sampled = [each for each in averaged if isinstance(each, Sampled)]
    if timed:
        said = {decisions[task].verdict for task in effects}
        value = float(np.mean([each.value for each in timed]))
        runs = sum(each.runs for each in timed)
        agreed = said.pop() if len(said) == 1 else INCONCLUSIVE
        overall = _Decision(value, None, None, runs, 1, ALL_TASKS, agreed)
    else:
        effect = Sampled(
            average([each.estimate for each in sampled]),
            sum(each.examples for each in sampled),
            max(each.seeds for each in sampled),
            sampled[0].made,
        )
        overall = _decide(effect, claim, confidence)
    lacks = [task for task in decisions if task not in defined] if defined else []
    limits = [
        overall.reason,
        f"without {', '.join(lacks)}" if lacks else None,
        "the run has one task" if len(decisions) == 1 else None,
    ]
    return overall._replace(reason="; ".join(filter(None, limits)) or None)


def _has_value(effect: Sampled | Timed) -> bool:
    return isinstance(effect, Timed) or not np.isnan(effect.estimate.values).all()
