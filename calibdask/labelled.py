"""Estimates as labelled results: variables on the dimensions of the input, of slices and of metrics."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs import Input
from calibdask.engine.slices import Axis
from calibdask.estimators.estimator import Estimate, Estimator

__all__ = ["Labelled", "check_names", "variables_of"]


def variables_of(name: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to the parts of an estimate, by the name of their variable."""
    return {f"{name}_{part}" if part else name: each for part, each in parts.items()}


def check_names(chosen: Mapping[str, Estimator], axes: tuple[Axis, ...], class_dim: str) -> None:
    """Refuse names that the result could not hold apart.

    Raises
    ------
    ValueError
        If there are such.
    """
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1 or name in chosen or name == class_dim:
            raise ValueError(
                f"The result would have two things called {name!r}: a dimension of the input, a name in by, a metric "
                "or the classes; rename one."
            )


@dataclass(frozen=True)
class Labelled:
    """A dataset in the making."""

    data: Input
    class_dim: str
    variables: dict[str, xr.Variable] = field(default_factory=dict)
    coordinates: dict[Hashable, Any] = field(default_factory=dict)

    def add(
        self,
        name: str,
        estimator: Estimator,
        estimate: Estimate,
        axes: tuple[Axis, ...],
        meanings: Mapping[str, str] | None = None,
    ) -> None:
        """Add the parts of an estimate, whose values have the (flattened) axes in front of their own dimensions.

        ``meanings`` of its parts, where those of the estimator would not do.

        Raises
        ------
        ValueError
            If two parts would have the same name, or one that of a dimension.
        """
        self._add_labels(axes)
        told = estimator.meanings(self.data.source.layout) if meanings is None else meanings
        meant = variables_of(name, told)
        for variable, part in variables_of(name, estimate).items():
            if variable in {axis.name for axis in axes}:
                raise ValueError(
                    f"The result would have two things called {variable!r}: a part of a metric, and a dimension of the "
                    "input or a name in by; rename one."
                )
            if variable in self.variables or variable in self.coordinates:
                raise ValueError(f"Two metrics make a variable {variable!r}; name one of them otherwise, in a mapping.")
            if part.role == "coordinate":
                self.coordinates[variable] = (variable, part.values)
                continue
            shared = {"class": self.class_dim, "replicate": "replicate"}
            dims = [shared.get(dim, f"{name}_{dim}") for dim in part.dims]
            said = {"meaning": meant[variable]} if variable in meant else {}
            notes = {"estimator": repr(estimator), **said, **part.notes}
            shape = (*(axis.size for axis in axes), *part.values.shape[2:])
            names = (*(axis.name for axis in axes), *dims)
            self.variables[variable] = xr.Variable(names, np.reshape(part.values, shape), notes)

    def _add_labels(self, axes: tuple[Axis, ...]) -> None:
        for axis in axes:
            if axis.labels is not None and axis.name not in self.coordinates:
                self.coordinates[axis.name] = (axis.name, axis.labels)

    def dataset(self, attributes: Mapping[str, Any]) -> xr.Dataset:
        """The result."""
        coordinates = dict(self.coordinates)
        slices = {"slices": [str(axis.name) for axis in self.data.by]} if self.data.by else {}
        if any(self.class_dim in variable.dims for variable in self.variables.values()):
            classes, labels = self.data.source.layout.classes, self.data.classes
            coordinates[self.class_dim] = (self.class_dim, np.arange(classes) if labels is None else labels)
        return xr.Dataset(self.variables, coordinates, {**attributes, **slices})
