"""Label probabilities, divided by their mean over all test texts (Zhou et al. 2024)."""

from anchorflow.arrays import Array
from anchorflow.measure.baselines import Observed
from anchorflow.measure.baselines.calibrated import calibrated


def predict(observed: Observed) -> Array:
    """Batch calibration: the prior is the mean over the batch, log p - log prior decides.

    The batch are all test texts of the seed, without their labels, so the answer to each text
    depends on which others there are.

    Source: Zhou et al. 2024, "Batch Calibration", §3.
    """
    return calibrated(observed.vanilla, observed.vanilla)
