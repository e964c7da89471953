"""Write which of the papers' claims hold for all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import CLAIMS, read_settings, read_tables
from anchorflow.tabulate import (
    tabulate_claims,
    tabulate_verdicts,
    write_csv,
    write_readable,
)

NOTE = (
    "Each claim is a difference that is above 0 where the claim holds. It is averaged over seeds, "
    "then over tasks, with a {:.0%} bootstrap interval over seeds and examples; what is compared "
    "is compared on the same examples. supported: the whole interval lies above 0; not supported: "
    "the whole interval lies at or below 0, as [-0.1, 0] or [0, 0]; inconclusive: neither, as "
    "[0, 0.1], or the difference is undefined, or is so in more replicates than the interval "
    "leaves out; not tested: the run lacks what the claim is about. "
    "Time has a rule of its own, as its quartiles are not a bootstrap: of a task, supported if the "
    "anchors' upper quartile is below the full prompts' lower one, not supported if the anchors' "
    "lower one is not below the full prompts' upper one; over tasks, supported or not if it is so "
    "in every task. Early and late are the first and the last third of the layers; of isolation, "
    "N is the largest number of layers isolated. In the last layer S_wp is 0 by construction. "
    "Intervals are those of each claim alone; with this many claims, some verdicts "
    "are due to chance. results/tables/claims.csv has every task, rule and reason."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        claims = read_tables(snakemake.input.claims, CLAIMS)
        confidence = read_settings(snakemake.input.claims[0])["confidence"]
        write_csv(snakemake.output.csv, claims)
        write_readable(
            dict(snakemake.output.items()),
            "Which claims hold, over tasks",
            NOTE.format(confidence),
            tabulate_claims(claims),
            {"Verdicts by task": tabulate_verdicts(claims)},
        )
