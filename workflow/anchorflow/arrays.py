"""The type of the arrays in which measurements and estimates are kept, and their quotients."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def divided(part: NDArray[Any], whole: NDArray[Any], where: NDArray[np.bool_]) -> Array:
    """The quotient, NaN except ``where`` it is defined; all of one shape."""
    quotient: Array = np.divide(part, whole, out=np.full(part.shape, np.nan), where=where)
    return quotient
