"""The table of families by hand, and reasons without names and remedies."""

import pytest

from anchorflow.config.errors import InputError
from family_sweep import reason
from tools.document.models import families

ROWS = [
    {
        **{"family": "a", "model": "org/a", "attention": ["windows", "sinks"]},
        **{"limits": {}, "difference": 1e-06},
    },
    {"family": "b", "refused": "has none"},
    {
        **{"family": "c", "model": "org/c", "attention": [], "difference": 1e-05},
        "limits": {"flow": "no graph", "isolation": "no layers", "kernel": "no graph"},
    },
    {"family": "d", "refused": "differs", "late": True},
    {"family": "e", "refused": "has none"},
    {"family": "f", "failed": "KeyError: 'x'"},
]


def test_exact_limited_and_refused_families_are_counted_and_listed() -> None:
    text, *rest = families("1.2.3", ROWS).split("\n\n")
    assert text.startswith("Of the 6 families of causal language models in transformers 1.2.3, **1")
    assert "exact in all of this, 1 in some of it, and the others are refused" in text
    assert text.endswith("is 1e-05.")
    assert rest[0].splitlines()[2:] == [
        "| `a` | org/a | windows, sinks | – |",
        "| `c` | org/c |  | flow, kernel: no graph; isolation: no layers |",
    ]
    assert rest[2].splitlines() == [
        "- has none: `b`, `e`",
        "- **fails without a reason**: `f`",
        "- differs **(found after loading)**: `d`",
    ]


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("models.m: the architecture x has y, which is not supported; choose z.", "has y"),
        ("XModel: 4 of 8 layers were found; this architecture is not supported.", None),
        ("models.m: the attention of x differs, so w; this architecture is …", None),
        ("the keys of 2 of 4 layers are missing: this model does not pass …", None),
    ],
)
def test_a_reason_has_neither_the_model_s_name_nor_the_remedy(
    sentence: str, why: str | None
) -> None:
    found = reason(InputError(sentence))
    assert found in sentence
    assert not any(word in found for word in ("models.", "XModel", "choose", "this"))
    assert why in (None, found)
