"""Measurements in which claims hold, hold of their control or of an untrained network, or fail.

All have several seeds of a few texts. Numbers are chosen so that effects can be worked out by hand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import polars as pl
import pytest

from anchorflow.analyses.compression import COMPRESSION
from anchorflow.analyses.isolation import ISOLATION
from anchorflow.analyses.kernel import COUNTS, KERNEL, KERNEL_ATTENTION, SIMILARITY
from anchorflow.claims import summarize as engine
from anchorflow.claims.verdicts import NOT_MEASURED, NOT_SUPPORTED, SUPPORTED, UNDECIDED
from anchorflow.config.cell_names import Words
from anchorflow.random_draws import halves
from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.samples import SAMPLES
from constructed.rows import frame

Row = dict[str, Any]
Tables = dict[str, pl.DataFrame]
Shares = tuple[float, float, float]  # of S_wp, S_pq, and S_ww

SEEDS = (0, 1, 2)
EXAMPLES = 40  # of every four, as many are counted as a test says
LAYERS = 6  # two early, two in the middle, two late
TWINS = ("tiny+initialized-0", "tiny+shuffled-0")

BOTH, CONTROL, TWIN, ALONE = (True, True), (True, False), (False, True), (False, False)


@dataclass(frozen=True)
class Constructed:
    """Data in which a claim holds, has no effect, or fails: kinds "holds", "even", and "fails"."""

    claim: str
    tables: Callable[..., Tables]  # of the model's kind, and of its control's where that has one
    effects: Mapping[str, float]  # by kind
    compared: tuple[bool, bool]  # whether control, and whether an untrained twin, have kinds
    control: Callable[[str], float] | None = None  # its effect by the model's kind, otherwise
    twin: Callable[[str, str], Tables] | None = None  # the twin's tables by both kinds, otherwise
    words: Words | None = None
    examples: int | None = None  # how many count, if that is checked

    def check(self, own: str, control: str, twin: str, verdict: str, reason: str | None) -> None:
        """Compare what is said of the claim, where all three are of these kinds."""
        with_control, with_twin = self.compared
        tables = self.tables(own, control) if with_control else self.tables(own)
        twins = [] if not with_twin else [self.twin(own, twin) if self.twin else self.tables(twin)]
        found = judged(self.claim, tables, *twins, words=self.words)
        of_control = self.effects[control] if with_control else self.control and self.control(own)
        of_twin = self.effects[twin] if with_twin else None
        expect(found, self.effects[own], verdict, reason, of_control, of_twin)
        assert self.examples in (None, found["examples"])


_NOT_CLEARLY = "not clearly above {}"


def verdicts_of(*constructed: Constructed) -> Callable[[Callable[..., None]], None]:
    """Let a test ``check`` what comes out of data of every kind; it has the name of its data.

    With "even" there is no effect in any text, which a few texts do not prove. An effect that is
    the difference from its control is not above 0 if that is as high.
    """
    network, rows = _NOT_CLEARLY.format("an untrained network"), []
    for of in constructed:
        with_control, with_twin = of.compared
        rows += [
            (of, "holds", "even", "even", SUPPORTED, None),
            (of, "fails", "even", "even", NOT_SUPPORTED, "the effect is not above 0"),
        ]
        if with_control:
            like = _NOT_CLEARLY.format("its control")
            rows.append((of, "holds", "holds", "even", UNDECIDED, like))
        else:
            unclear = ["the effect is not clearly above 0"]
            if of.control and of.effects["even"] <= of.control("even"):
                unclear.append(_NOT_CLEARLY.format("its control"))
            unclear += [network] * with_twin
            rows.append((of, "even", "even", "even", UNDECIDED, "; ".join(unclear)))
        if with_twin:
            rows.append((of, "holds", "even", "holds", UNDECIDED, network))
    cases = [
        pytest.param(partial(of.check, *row), id="-".join((of.claim, *row[:3])))
        for of, *row in rows
    ]
    return pytest.mark.parametrize("check", cases)


def cells(seeds: Sequence[int] = SEEDS, examples: int = EXAMPLES, task: str = "news") -> list[Row]:
    """The key columns of every text of every seed."""
    return [
        {"model": "tiny", "task": task, "seed": seed, "example": example}
        for seed in seeds
        for example in range(examples)
    ]


def summarize(
    tables: Tables,
    twins: Sequence[Tables] = (),
    tasks: Sequence[str] = ("news",),
    confidence: float = 0.95,
    words: Words | None = None,
) -> pl.DataFrame:
    """The table of all claims, most of them not tested."""
    untrained = {
        f"untrained_{name}": pl.concat(
            [
                twin[name].with_columns(model=pl.lit(model))
                for model, twin in zip(TWINS, twins, strict=False)
            ]
        )
        for name in (twins[0] if twins else ())
    }
    # Without predictions of its own, the model always answers the same.
    always = [
        {**cell, "label": 0, "prediction": 0, "probabilities": [0.5, 0.5]} for cell in cells()
    ]
    named = {"predictions": frame(always, PREDICTIONS), **tables, **untrained}
    return engine.summarize_claims(tasks, "mask", 0.05, confidence, words or {}, **named)


def judged(
    claim: str, tables: Tables, *twins: Tables, task: str = "news", words: Words | None = None
) -> Row:
    """What is said of one claim in a run that has no others."""
    only = [known for known in engine.load_claims() if known.name == claim]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "load_claims", lambda: only)
        return of_claim(summarize(tables, twins, words=words), claim, task)


def of_claim(summary: pl.DataFrame, claim: str, task: str = "news") -> Row:
    """One row of the table of claims."""
    chosen = (pl.col("claim") == claim) & (pl.col("task") == task)
    return summary.row(by_predicate=chosen, named=True)


def expect(
    found: Row,
    effect: float | None,
    verdict: str,
    reason: str | None,
    control: float | None = None,
    twin: float | None = None,
) -> None:
    """Compare a row of the table of claims with what was worked out by hand."""
    for column, value in (("effect", effect), ("control_effect", control), ("null_effect", twin)):
        assert found[column] == (None if value is None else pytest.approx(value, abs=1e-6)), column
    assert (found["verdict"], found["reason"]) == (verdict, reason)
    assert found["seeds"] == len(SEEDS)


def lacks(claim: str, tables: Tables, reason: str, remedy: str | None = None) -> None:
    """Check that a claim is not measured, for this reason, and what would measure it."""
    found = judged(claim, tables)
    assert (found["verdict"], found["effect"]) == (NOT_MEASURED, None)
    assert found["reason"].startswith(reason)
    assert remedy in (None, found["remedy"])


# --- information flows ---------------------------------------------------------------------------


READ_BY_CLAIMS = (
    *(f"s_{name}{ending}" for ending in ("", "_text") for name in ("wp", "pq", "ww")),
    *(f"own_{name}" for name in ("label", "text", "before")),
    "target_text",
    "target_template",
)


def flow(
    columns: Mapping[str, Sequence[float | None]], seeds: Sequence[int] = SEEDS, task: str = "news"
) -> pl.DataFrame:
    """The table ``flow`` with these values per layer; null in other columns that claims read.

    All values of a text are multiplied by its number plus 1, which leaves shares as they are.
    """
    rows = [
        {
            **cell,
            "layer": layer,
            **{
                name: None if value is None else (cell["example"] + 1) * value
                for name in READ_BY_CLAIMS
                for value in [columns[name][layer] if name in columns else None]
            },
        }
        for cell in cells(seeds, task=task)
        for layer in range(LAYERS)
    ]
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(READ_BY_CLAIMS, pl.Float64))


def by_third(early: float, middle: float, late: float) -> list[float]:
    """A value per layer."""
    return [early] * 2 + [middle] * 2 + [late] * 2


def flows(early: Shares, late: Shares, ending: str = "") -> dict[str, list[float]]:
    """Columns of the three flows; all is S_ww in the middle layers."""
    return {
        f"{name}{ending}": by_third(early[place], (0.0, 0.0, 1.0)[place], late[place])
        for place, name in enumerate(("s_wp", "s_pq", "s_ww"))
    }


def flows_and_controls(own: Sequence[Shares], control: Sequence[Shares]) -> Tables:
    """Flows of label words, and of random text tokens in their place; early and late."""
    early, late = own
    columns = {**flows(early, late), **flows(*control, ending="_text")}
    return {"flow": flow(columns)}


# --- isolation and compression -------------------------------------------------------------------


def isolation(
    unchanged: Mapping[tuple[str, str], Sequence[int]], layers: int = 5
) -> dict[str, pl.DataFrame]:
    """The table ``isolation``: by positions and side, how many predictions of four stay the same.

    One number for each draw. With other numbers of layers, with another variant, and without
    demonstrations, all change. Predictions are certain, so that a changed one retains nothing.
    """
    runs = [("none", "none", 0, "none", 0, 4), ("none", "hidden", 0, "none", 0, 0)]
    for (positions, side), counts in unchanged.items():
        for draw, count in enumerate(counts):
            runs.append(("mask", positions, draw, side, layers, count))
            runs.append(("mask", positions, draw, side, layers + 1, 0))
            runs.append(("zero", positions, draw, side, layers, 0))
    names = ("variant", "positions", "draw", "side", "layers")
    rows = [
        {**cell, **dict(zip(names, run[:-1], strict=True)), "label": 0, "prediction": changed}
        | {"probabilities": [1.0 - changed, float(changed)], "top_tokens": [1]}
        for run in runs
        for cell in cells()
        for changed in [int(cell["example"] % 4 >= run[-1])]
    ]
    return {"isolation": frame(rows, ISOLATION)}


def compression(loyal: Mapping[str, Sequence[int]]) -> Tables:
    """The table ``compression``: by method, on how many texts of four each draw is loyal.

    Where it is loyal, it is right, and all five of the likeliest words stay; else it is wrong, and
    two of the eight that either has. With a share of the tokens, and without demonstrations,
    nothing is loyal. Predictions are certain, so that a changed one retains nothing.
    """
    settings = [("full", None, 0, 4), ("first_only", None, 0, 0)]
    for method, counts in loyal.items():
        settings += [(method, None, draw, count) for draw, count in enumerate(counts)]
        settings += [(method, 0.5, 0, 0)] if method != "hidden_random" else []
    rows = [
        {**cell, "method": method, "share": share, "draw": draw, "shared": 20}
        | {"kept": 1 if method == "first_only" else 5, "label": 1, "prediction": loyal_here}
        | {"probabilities": [1.0 - loyal_here, float(loyal_here)]}
        | {"top_tokens": [1, 2, 3, 4, 5] if loyal_here else [1, 2, 6, 7, 8]}
        for method, share, draw, count in settings
        for cell in cells()
        for loyal_here in [int(cell["example"] % 4 < count)]
    ]
    return {"compression": frame(rows, COMPRESSION)}


def answered(
    right: Mapping[str, int], column: str, schema: Any, seeds: Sequence[int] = SEEDS
) -> pl.DataFrame:
    """A table of predictions: by way to answer, how many texts of four it gets right."""
    rows = [
        {
            **cell,
            column: way,
            "label": cell["example"] % 2,
            "prediction": (cell["example"] + (cell["example"] % 4 >= count)) % 2,
            "probabilities": [0.5, 0.5],
        }
        for way, count in right.items()
        for cell in cells(seeds)
    ]
    return frame(rows, schema)


# --- kernel regression ---------------------------------------------------------------------------

HEAD_TEXTS = 40
TOLD = (0, 1) * 20  # what the model predicts


def agreement_of_constant() -> float:
    """How often the other half's most frequent prediction is what the model predicts."""
    half, shares = half_of(), []
    for part in (0, 1):
        here, others = (
            [told for told, of in zip(TOLD, half, strict=True) if (of == part) == same]
            for same in (True, False)
        )
        shares.append(here.count(max((0, 1), key=others.count)) / len(here))
    return sum(shares) / 2


def kernel(
    agreement: Mapping[tuple[int, int], int],
    permuted: Mapping[tuple[int, int], int] | None = None,
    correlation: Mapping[tuple[int, int], float] | None = None,
    told: Sequence[int] = TOLD,
) -> Tables:
    """Heads as kernel regressions, by layer and head: every how many texts it disagrees; 0, never.

    Agreement is that share of both halves of the texts. With other kinds of weights there is none.
    """
    rows = [
        {
            **cell,
            "layer": layer,
            "head": head,
            "weights": weights,
            "prediction": None if wrong or weights != "max" else told[cell["example"]],
            "correlation": (correlation or {}).get((layer, head)),
            "permuted": None
            if permuted is None or disagrees(cell["example"], permuted[layer, head])
            else told[cell["example"]],
        }
        for cell in cells(examples=HEAD_TEXTS)
        for (layer, head), every in agreement.items()
        for wrong in [disagrees(cell["example"], every)]
        for weights in ("label", "max")
    ]
    return {"kernel": frame(rows, KERNEL), "kernel_predictions": model_predictions(told)}


def attention_and_similarity(
    attention: Sequence[float], similarity: Sequence[float], heads: Sequence[tuple[int, int]]
) -> Tables:
    """All texts attend to the same demonstrations, and are similar to the same."""
    of_heads = [
        {**cell, "layer": layer, "head": head, "attention_max": attention}
        for cell in cells(examples=HEAD_TEXTS)
        for layer, head in heads
    ]
    of_texts = [
        {**cell, "demonstration": place, "similarity": value}
        for cell in cells(examples=HEAD_TEXTS)
        for place, value in enumerate(similarity)
    ]
    return {
        "kernel_attention": frame(of_heads, KERNEL_ATTENTION),
        "similarity": frame(of_texts, SIMILARITY),
    }


def disagrees(example: int, every: int) -> bool:
    """Whether a text is one of every so many within its half of the texts; 0 for none."""
    own = [other for other in range(HEAD_TEXTS) if half_of()[other] == half_of()[example]]
    return every > 0 and own.index(example) % every == 0


@cache
def half_of() -> list[int]:
    """The half of the texts that each one is in."""
    return halves(pl.Series(range(HEAD_TEXTS)), 0)["half"].to_list()


def model_predictions(told: Sequence[int] = TOLD) -> pl.DataFrame:
    """What the model predicts of each text, with the demonstrations of ``kernel``."""
    rows = [
        {
            **cell,
            "label": told[cell["example"]],
            "prediction": told[cell["example"]],
            "probabilities": [0.5, 0.5],
        }
        for cell in cells(examples=HEAD_TEXTS)
    ]
    return frame(rows, PREDICTIONS)


def encoder(every: int, fewer: int | None = None, heads: int = 3) -> Tables:
    """What an encoder's kernel regression needs that disagrees on every so many texts.

    Texts lie on one of two corners, as the four demonstrations do, and so the first two of them.
    With those, the model disagrees on every so many texts, ``fewer``, and ``heads`` say always 0.
    """
    corners = [[1.0, 0.0], [0.0, 1.0]]
    told = [(each + disagrees(example, every)) % 2 for example, each in enumerate(TOLD)]
    labels = [0, 1, 1, 0]
    embeddings = [("train", row, corners[label]) for row, label in enumerate(labels)]
    embeddings += [("test", example, corners[label]) for example, label in enumerate(told)]
    samples = [
        {
            **{name: cell[name] for name in ("task", "seed", "example")},
            "demonstrations": "kernel",
            "demonstration_rows": [0, 1, 2, 3],
            "demonstration_labels": labels,
        }
        for cell in cells(examples=HEAD_TEXTS)
    ]
    counts = [
        {**cell, "demonstrations_per_label": 1, "label": 0}
        | {"prediction": (told[cell["example"]] + disagrees(cell["example"], fewer)) % 2}
        | {"probabilities": [0.5, 0.5], "heads": [0] * heads, "heads_permuted": [0] * heads}
        for cell in cells(examples=HEAD_TEXTS)
        if fewer is not None
    ]
    named = [
        {"task": "news", "split": split, "row": row, "embedding": corner}
        for split, row, corner in embeddings
    ]
    return {
        "kernel_samples": frame(samples, SAMPLES),
        "embeddings": frame(named, EMBEDDINGS),
        "counts": frame(counts, COUNTS),
    }
