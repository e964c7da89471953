"""More flows into label words than elsewhere early: where it is so, and where not."""

import pytest

from constructed.claims import WITH_BOTH, expect, flows_and_controls, judged

# S_wp, S_pq, and S_ww as shares, early and late; only the early ones count.
FLOWS = {
    "holds": ((0.6, 0.1, 0.3), (0.1, 0.2, 0.7)),
    "even": ((0.4, 0.2, 0.4), (0.7, 0.2, 0.1)),
    "fails": ((0.1, 0.5, 0.4), (0.7, 0.2, 0.1)),
}
EFFECTS = {"holds": 0.3, "even": 0.0, "fails": -0.3}


@pytest.mark.parametrize(*WITH_BOTH)
def test_flow_wp_over_ww(
    own: str, control: str, twin: str, verdict: str, reason: str | None
) -> None:
    tables = flows_and_controls(FLOWS[own], FLOWS[control])
    untrained = flows_and_controls(FLOWS[twin], FLOWS["even"])
    found = judged("flow_wp_over_ww", tables, untrained)
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control], EFFECTS[twin])
