"""Information flow: S_wp, S_pq and S_ww, from the saliency of attention ([A] §2.1)."""

from anchorflow.config.analysis import INFORMATION, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="the information flow in {}",
    category=INFORMATION,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Measuring saliency of attention for {task} in {model}",
    ),
    summary=Summary({"flow": "flow", "prompts": "prompts"}, ("statistics", "flow")),
    figure=Presented(
        "Information flow over the layers (Fig. 3 of [A])", untrained={"untrained": "flow"}
    ),
    table=Presented("Shares of the information flows"),
)
