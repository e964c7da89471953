"""The type of the arrays in which measurements and estimates are kept."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
