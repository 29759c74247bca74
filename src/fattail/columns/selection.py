"""Selection of a rank's cell among many, exactly and in one sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Bounded, TopK
from fattail.privacy.bounded import PrivacyError
from fattail.privacy.noise import NoiseSource

_BITS = 36  # of the weight of a cell that misses by nothing
_PUBLIC_BITS = 12  # of a public weight
_CELLS = 1 << 14  # at most: then the sum of all weights is below 2**62


@dataclass(frozen=True)
class RankSelection(TopK):
    """One of many cells, with a probability that falls by ``exp(-1 / noise)`` for every row by which it misses the rank.

    The exponential mechanism with integer weights: it costs one sweep over the cells instead of a noise draw for each. A score is
    minus the number of rows missed, an integer of sensitivity 1; the offset of the bounded value holds public log weights.

    Notes
    -----
    *Privacy.* ``1 / noise`` on either side, so a bounded range of ``2 / noise``, as for ``TopK``. Proof: ``selection.proof.md``.
    """

    def check(self, bounded: Bounded, rho: float) -> None:
        super().check(bounded, rho)
        exact = bounded._value.dtype == np.int64 and bounded.raw_sensitivity == 1.0 and np.all(bounded.unit == 1.0)
        if not exact or self.k != 1 or bounded.size > _CELLS:
            raise PrivacyError(f"{self.name!r} selects one of at most {_CELLS} cells by integer scores of sensitivity 1")

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        noise = self.noise(rho, 1.0)
        table = weights(noise)
        missed = np.clip(-bounded._value, 0, len(table) - 1)
        log_weight = np.broadcast_to(bounded.offset, missed.shape) / noise
        public = np.maximum(np.rint(np.exp2(_PUBLIC_BITS) * np.exp(log_weight - log_weight.max())), 1.0).astype(np.int64)
        upto = np.cumsum(public * table[missed])
        return np.array([np.searchsorted(upto, below(source, int(upto[-1])), side="right")], dtype=np.float64)


@lru_cache(maxsize=64)
def weights(noise: float) -> NDArray[np.int64]:
    """Integer weights by rows missed: from ``2**_BITS`` down to 1, no step by more than a factor ``exp(1 / noise)``."""
    keep = math.exp(-1 / noise) * (1 + 2.0**-40)  # at least the exact number, whatever was rounded
    table = [1 << _BITS]
    while table[-1] > 1 and len(table) < 1 << 18:
        table.append(min(math.ceil(table[-1] * keep), table[-1]))
        if table[-1] == table[-2]:
            break  # a further step would be less than one
    return np.array(table, dtype=np.int64)


def below(source: NoiseSource, total: int) -> int:
    """A uniform whole number in ``[0, total)``, by rejection of fair bits."""
    bits = total.bit_length()
    while True:
        number = int.from_bytes(np.packbits(source.bernoulli(0.5, bits)).tobytes(), "big") >> (-bits % 8)
        if number < total:
            return number
