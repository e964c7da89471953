"""The papers' claims as differences, and which of them hold for a model.

``claims.py`` in an analysis's folder and, for claims on several, a file in ``sections`` declare

- ``READS``, the names of the tables that its claims read, as a literal, and
- ``CLAIMS``, the claims, each with an effect, which is above 0 if the claim holds, the control that
  it has to exceed, and the null.

[H] stands for work on attention heads: section 1 for label copy (Cho et al. 2025), 2 for function
vectors and induction heads (Yin and Steinhardt 2025), 3 for task recognition and task learning
(Yang et al. 2025), 4 for the agreement of scores, 5 for vectors that have the task (Hendel et al.
2023, Todd et al. 2024, Zheng et al. 2024), 6 for positions that carry a task together (Cheng and
Zhang 2026), and 7 for demonstrations that add up (Wang et al. 2026).
"""

from anchorflow.config.analysis import CLAIMS, Analysis, Presented, Summary

ANALYSIS = Analysis(
    subject="which claims hold for {}",
    category=CLAIMS,
    # It reads what READS of their modules name.
    summary=Summary({}, ("statistics", "claims", "temperature"), heavy=True),
    figure=Presented("Which claims hold"),
    table=Presented("Which claims hold"),
)
