"""Validation of a study: whether its axes, outputs and types make a cube."""

from collections.abc import Iterator

from calibdask.safe_text import listed
from calibdask.study.study import Study

# Variables of every cube besides the outputs of its study.
_RESERVED = ("status", "error", "cell_hashes")
# Floats, integers and booleans, by the kind of their NumPy type.
_KINDS = "fiub"


def validate_study(study: Study) -> None:
    """Raise ValueError if parameters are invalid, or if axes, outputs and types are inconsistent."""
    if study.seed < 0:
        raise ValueError(f"seed expects a non-negative integer, got {study.seed}.")
    for problem in study.problems():
        raise ValueError(problem)
    for problem in _inconsistencies(study):
        raise ValueError(f"{study.name} {problem}")


def _inconsistencies(study: Study) -> Iterator[str]:
    cells, inside = study.cells(), study.inside()
    empty = [name for name, values in cells.items() if not len(values)]
    if not cells or empty:
        yield f"has no cells: {listed(empty)} is empty." if empty else "has no cells: cells() names no axes."
    if shared := sorted(cells.keys() & inside.keys()):
        yield f"has {listed(shared)} both among and inside its cells; an axis is one or the other."
    for variable, dims in study.outputs.items():
        if variable in (*_RESERVED, *cells, *inside):
            yield f"has an output {variable!r}, which is the name of an axis or a reserved name."
        unknown = [dim for dim in dims if dim not in inside]
        if unknown:
            yield f"has an output {variable!r} with the axes {listed(unknown)}, which inside() does not name."
    for variable in study.types:
        if variable not in study.outputs:
            yield f"has a type for {variable!r}, which is not one of its outputs."
        if study.type_of(variable).kind not in _KINDS:
            kind = study.types[variable]
            yield f"has the type {kind!r} for {variable!r}; expected floats, integers or booleans."
