"""Whether demonstrations decide more answers than what label words mean (Kumar 2025)."""

from anchorflow.analyses.override.summarize import over_exchanged, parts_of_seed, with_prior
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, Run, Sampled

READS = ("override",)


def overridden(run: Run) -> Sampled:
    """Override rate minus that with the answers to texts of other classes.

    The answers are those of plain in-context learning, with deranged label words.
    """
    seeds = {}
    for seed, rows in run.by_seed("override").items():
        plain = with_prior(rows).filter(method="full")
        if not plain.is_empty():
            seeds[seed] = parts_of_seed(plain)
    lacking = "plain in-context learning was not measured with deranged label words (override.ways)"
    return Sampled(Sampled.of_any(seeds, lacking, _REMEDY).by_seed, over_exchanged)


_REMEDY = "override: {ways: [full]}"

CLAIMS = (
    # Demonstrations may change which word a model prefers for every text alike. It then follows
    # the mapping of the class that has this word, without having learnt any. The answers to texts
    # of other classes follow it as often. Those that keep their prior count as following it, too:
    # with two labels and priors that are what words mean, an override rate q gives 2q - 1. The
    # claim is about a majority, and 0 is where demonstrations and meanings decide equally often.
    Claim(
        "demonstrations_override",
        "Demonstrations decide more answers than what label words mean",
        "[K] §4.2",
        "with every class's label word exchanged for that of another, share of answers that follow "
        "the demonstrations' mapping among those that follow it or the prior, the answer without "
        "demonstrations, where the two differ; minus the same share of the answers to texts of "
        "other classes; above 0 where demonstrations decide most of these answers, and below 0 "
        "where what label words mean does, even if some follow the mapping",
        "share of answers",
        overridden,
        Control.subtracted("answers to texts of other classes"),
        form=DISCRIMINATING,
        undefined="no answer follows mapping or prior where they differ",
        figure="override",
        asked_for={"override": _REMEDY},
    ),
)
