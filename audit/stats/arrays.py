"""The arrays that statistics take and return."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AnyArray = NDArray[Any]
Counts = NDArray[np.int64]
