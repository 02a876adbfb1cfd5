"""A map by features applied to blocks of rows: checked scores, and the values of their features."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.analyses.multicalibration.segment_map import SegmentMap
from calibdask.calibrators.mapping import checked
from calibdask.statistics.exact import Array
from calibdask.statistics.lattice.coding import Codes


@dataclass(frozen=True)
class RowsBySegment:
    """A map by features, for blocks of rows with the values of their features, (n, features)."""

    map: SegmentMap
    logits: bool

    def __call__(self, scores: Any, codes: Any = None) -> Array:
        """Mended scores of the shape of the scores."""
        probabilities = self.probabilities(scores, codes)
        return probabilities if np.ndim(scores) == 2 else np.ascontiguousarray(probabilities[:, 1])

    def probabilities(self, scores: Any, codes: Any = None) -> Array:
        """Mended probabilities of both classes, (n, 2)."""
        values = checked(scores, are_logits=self.logits)
        positive = (values if values.ndim == 1 else values[:, 1]).clip(0.0, 1.0)
        known = np.zeros((positive.size, 0)) if codes is None else codes
        mapped = self.map(positive, np.asarray(known, np.uint8).T)
        return np.stack([1 - mapped, mapped], -1)

    @property
    def all_codes(self) -> Codes:
        """The values of features of a row in each segment that is moved, and of one more."""
        terms = self.map.terms()
        codes = np.zeros((len(terms["round"]) + 1, len(self.map.sizes)), np.uint8)
        for row, (features, values) in enumerate(zip(terms["feature"], terms["value"], strict=True)):
            there = features >= 0
            codes[row, features[there].astype(int)] = values[there]
        return codes

    def unknown(self, codes: Any) -> int:
        """How many rows have a value of a feature that was not there when the map was fitted."""
        return int((np.asarray(codes) >= np.array(self.map.sizes)).any(-1).sum())
