"""More flows from label words than elsewhere late: where it is so, and where not."""

import pytest

from constructed.claims import WITH_BOTH, expect, flows_and_controls, judged

# S_wp, S_pq, and S_ww as shares, early and late; only the late ones count.
FLOWS = {
    "holds": ((0.2, 0.1, 0.7), (0.1, 0.7, 0.2)),
    "even": ((0.1, 0.6, 0.3), (0.2, 0.4, 0.4)),
    "fails": ((0.1, 0.6, 0.3), (0.4, 0.1, 0.5)),
}
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.4}


@pytest.mark.parametrize(*WITH_BOTH)
def test_flow_pq_over_ww(
    own: str, control: str, twin: str, verdict: str, reason: str | None
) -> None:
    tables = flows_and_controls(FLOWS[own], FLOWS[control])
    untrained = flows_and_controls(FLOWS[twin], FLOWS["even"])
    found = judged("flow_pq_over_ww", tables, untrained)
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control], EFFECTS[twin])
