"""Correlation of a head's attention with similarity, over demonstrations ([K] §5.3, eq. 9)."""

from anchorflow.summarize.claims._claim import Claim, Control, Run, Sampled
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates

READS = ("kernel", "kernel_predictions")


def similarity_followed(run: Run) -> Sampled:
    """Pearson's correlation of weights with similarity, of the head chosen on other texts."""
    heads = candidates(run)
    return heads.held_out(heads.correlation, heads.best())


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "weights_follow_similarity",
        "The best head attends more to demonstrations that are more similar to the test text",
        "[K] §5.3, Fig. 4",
        "correlation of attention with similarity over demonstrations, of the held-out best head",
        "Pearson's r",
        similarity_followed,
        Control("weights given to other demonstrations, whose correlation is 0 on average"),
        undefined=f"{NO_OTHERS}, or similarity does not vary",
    ),
)
