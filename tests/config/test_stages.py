"""What summaries read of untrained twins and of shuffled labels, from the configuration."""

from typing import Any

import pytest

from anchorflow.config.stages import PRESENTED, null_stages, presented

ALL: dict[str, Any] = {
    "untrained": ["shuffled"],
    "stages": ["attention", "saliency", "isolation", "compression"],
    "shuffled_labels": True,
}


def test_predictions_come_with_attention_and_only_they_are_made_with_shuffled_labels() -> None:
    predicted = ["attention", "predictions"]
    assert null_stages("untrained", ALL) == [*predicted, "saliency", "isolation", "compression"]
    assert null_stages("shuffled", ALL) == predicted
    assert null_stages("untrained", ALL | {"stages": ["saliency"]}) == ["saliency"]
    assert null_stages("shuffled", ALL | {"stages": ["compression"]}) == predicted


@pytest.mark.parametrize(
    ("null", "changes"),
    [("untrained", {"untrained": []}), ("shuffled", {"shuffled_labels": False})],
)
def test_nothing_is_measured_of_what_a_run_does_not_have(
    null: str, changes: dict[str, Any]
) -> None:
    assert null_stages(null, ALL | changes) == []
    assert presented("claims").null_reads(null, ALL | changes) == {}


def test_claims_alone_read_the_same_tables_of_nulls_by_names_of_their_own() -> None:
    claims = presented("claims")
    found = claims.null_reads("untrained", ALL | {"stages": ["attention"]})
    assert found == {
        "untrained_attention": "attention",
        "untrained_predictions": "predictions",
    }
    reads = claims.null_reads("shuffled", ALL)
    assert reads["shuffled_predictions"] == "predictions"
    assert "shuffled_saliency" not in reads
    assert {**claims.reads, **reads, **claims.worded}.items() <= claims.may_read().items()
    for shown in PRESENTED:
        if shown.name != "claims":
            assert shown.may_read() == {**shown.reads, **shown.further}
            assert shown.null_reads("untrained", ALL) == {}
