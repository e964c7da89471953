"""The claim on override: what is told from a changed preference, and from no training."""

from collections.abc import Callable

import pytest

from anchorflow.analyses.override.summarize import PRIOR
from anchorflow.claims.claim import NotMeasured, Run
from anchorflow.claims.summarize import load_claims
from constructed import claims as made
from constructed.override import FIRST, LABELS, MEANT, SECOND, answers

OVERRIDE = "demonstrations_override"
# What a model answers without demonstrations and with them.
KINDS = {"holds": (FIRST, LABELS), "even": (FIRST, SECOND), "fails": (MEANT, MEANT)}


def tables_of(kind: str) -> made.Tables:
    prior, answer = (4 * given for given in KINDS[kind])
    return {"override": answers({PRIOR: prior, "full": answer}, labels=4 * LABELS)}


EFFECTS = {"holds": 1, "even": 0, "fails": -1}


@made.verdicts_of(made.Constructed(OVERRIDE, tables_of, EFFECTS, made.TWIN))
def test_verdicts(check: Callable[[], None]) -> None:
    check()


def test_a_run_without_plain_in_context_learning_says_what_to_ask_for() -> None:
    (claim,) = (known for known in load_claims() if known.name == OVERRIDE)
    table = answers({PRIOR: FIRST, "hidden_anchor": LABELS})
    with pytest.raises(NotMeasured, match=r"deranged label words \(override.ways\)") as why:
        claim.measure(Run("news", {"override": table}, "mask", 1.0))
    assert why.value.remedy == "override: {ways: [full]}"
