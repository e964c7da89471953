"""Label probabilities, divided by their mean over all test texts (Zhou et al. 2024)."""

from anchorflow.analyses.reweighting.baselines import Observed
from anchorflow.analyses.reweighting.baselines.calibrated import calibrated
from anchorflow.arrays import Array


def predict(observed: Observed) -> Array:
    """Batch calibration: the prior is the mean over the batch, log p - log prior decides.

    The batch is all test texts of the seed, without their labels, so the answer to a text depends
    on the others.

    Source: Zhou et al. 2024, "Batch Calibration", §3.
    """
    return calibrated(observed.vanilla, observed.vanilla)
