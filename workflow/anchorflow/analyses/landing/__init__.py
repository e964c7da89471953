"""Where on the demonstrations attention lands ([K] §5.1, Fig. 2)."""

from anchorflow.config.analysis import KERNEL, Analysis, Presented, Summary

ANALYSIS = Analysis(
    subject="where attention lands on demonstrations in {}",
    category=KERNEL,
    summary=Summary(
        {
            "segments": "kernel/segments",
            "places": "kernel/places",
            "prompts": "kernel/prompts",
        }
    ),
    figure=Presented("Where attention lands (Fig. 2 of [K])"),
    table=Presented("Where attention lands"),
)
