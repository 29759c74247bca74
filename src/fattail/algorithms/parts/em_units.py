"""Units in which private EM works: centres, sizes and correlations of columns nobody described.

All of them are released; each is a selection on a public grid or a mean of rows in a ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.algorithms.parts.scale import magnitude_quantile
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.robust import Ball, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


def shrink(V: Floats, radius: float) -> Floats:
    """Rows longer than ``radius`` pulled back to it, for utility; the ball after it is the guarantee."""
    length = lengths(V)
    return np.asarray(V * np.minimum(1.0, radius / np.fmax(length, 1e-300))[:, None])


def lengths(V: Floats) -> Floats:
    """Length of each row."""
    result: Floats = np.sqrt(_kernels.row_dots(V, V))
    return result


def bounded_size(size: float) -> float:
    """A size whose powers stay floats: what noise makes of a column of zeros, or of too few rows, can be absurd."""
    return float(min(max(size, 2.0**-100), 2.0**100))


def response(block: Block) -> Floats:
    """The block's response, in double precision."""
    assert block.y is not None
    return np.asarray(block.y, dtype=np.float64)


def stacked(block: Block, columns: int) -> Floats:
    """Covariates, and the response as last column if there is one more."""
    return np.column_stack([block.X, response(block)]) if columns > block.X.shape[1] else np.asarray(block.X, dtype=np.float64)


@dataclass(frozen=True)
class Units:
    """Private centre and octave of the size of each column (the response is the last one).

    With a centre: the size of ``|x|``, a mean clipped at twice that, then the size of
    ``|x - centre|``. Without: the first alone.
    """

    columns: int
    share: float
    centred: bool
    quantile: float = 0.5

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        if not self.centred:
            return (TopK("column sizes", self.share, count=self.columns),)
        return (
            TopK("column sizes", 0.35 * self.share, count=self.columns),
            Gaussian("column centres", 0.3 * self.share),
            TopK("column spreads", 0.35 * self.share, count=self.columns),
        )

    def release(self, curator: Curator, data: PrivateData) -> tuple[Floats, Floats]:
        center = np.zeros(self.columns)
        sizes, *rest = self.mechanisms
        scale = self._octaves(curator, sizes, data, center)
        if rest:
            centres, spreads = rest
            assert isinstance(centres, Gaussian)
            clip = Ball(radius=2.0 * math.sqrt(self.columns), scale=scale)
            center = curator.release(
                centres,
                clip.mean(data, lambda b: (np.clip(stacked(b, self.columns), -3 * scale, 3 * scale), None), width=self.columns),
            )
            scale = self._octaves(curator, spreads, data, center)
        return center, scale

    def _octaves(self, curator: Curator, selection: Mechanism, data: PrivateData, center: Floats) -> Floats:
        assert isinstance(selection, TopK)
        d = data.d

        def size(j: int) -> float:
            def values(block: Block) -> Floats:
                column = block.X[:, j] if j < d else response(block)
                return np.asarray(np.abs(column - center[j]))

            return magnitude_quantile(curator, selection, data, values, self.quantile)

        return np.array([bounded_size(size(j)) for j in range(self.columns)])


def whitener(curator: Curator, release: Gaussian, data: PrivateData, center: Floats, scale: Floats) -> Floats:
    """Matrix W such that ``(x - center) @ W`` has about unit, uncorrelated coordinates."""
    d = data.d
    gram = Gram(radius=1.2 * math.sqrt(d), scale=scale, center=center)
    bounded = gram.mean(data)
    noise = curator.noise(release, bounded.sensitivity)
    G = symmetric(curator.release(release, bounded))
    diagonal = np.diag(np.maximum(np.diag(G), 0.05))
    off = G - np.diag(np.diag(G))
    energy = float(np.sum(off**2))
    kept = max(energy - d * (d - 1) * noise**2 / 2.0, 0.0) / max(energy, 1e-300)
    root = 1.0 / np.sqrt(np.diag(diagonal))
    values, vectors = np.linalg.eigh(np.eye(d) + kept * root[:, None] * off * root)
    W: Floats = (root / scale)[:, None] * ((vectors / np.sqrt(np.maximum(values, 0.05))) @ vectors.T)
    return W


def column_moments(
    curator: Curator, release: Gaussian, data: PrivateData, center: Floats, scale: Floats, centred: bool
) -> tuple[Floats, Floats, float]:
    """Mean and spread of each covariate where it is observed, and the variance of the response."""
    d, columns = data.d, len(center)
    first, second = 1.5 * math.sqrt(columns), 3.0 * math.sqrt(columns)

    def rows(block: Block) -> tuple[Floats, None]:
        Z = (stacked(block, columns) - center) / scale
        seen = ~np.isnan(Z)
        Z = np.where(seen, np.clip(Z, -6.0, 6.0), 0.0)
        square = shrink(np.where(seen, Z * Z - 1.0, 0.0), second) / second
        parts = [square * math.sqrt(0.7), math.sqrt(0.1) * seen.mean(axis=1)]
        if centred:
            parts.append(shrink(Z, first) * (math.sqrt(0.2) / first))
        return np.column_stack(parts), None

    width = columns + 1 + columns * centred
    released = curator.release(release, Ball(radius=1.0).mean(data, rows, width=width))
    # The observed share of a covariate, from the one of all columns: the response is always there.
    share = np.full(columns, np.clip((released[columns] / math.sqrt(0.1) * columns - 1.0) / d, 0.1, 1.0))
    share[d] = 1.0
    mean = released[columns + 1 :] / (math.sqrt(0.2) / first) / share if centred else np.zeros(columns)
    variance = np.clip(1.0 + released[:columns] * (second / math.sqrt(0.7)) / share - mean**2, 0.05, 20.0)
    return center + scale * mean, (scale * np.sqrt(variance))[:d], float(scale[d] ** 2 * variance[d])
