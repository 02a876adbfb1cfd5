"""Whether what a study announces can be laid out as a cube."""

from collections.abc import Iterator

from calibdask.study.study import Study

__all__ = ["check_study"]

# Variables that every cube has besides those of its study.
_TAKEN = ("status", "error")
_KINDS = "fiub"


def check_study(study: Study) -> None:
    """Raise ValueError if parameters make no sense, or if axes, outputs and types do not fit each other."""
    if study.seed < 0:
        raise ValueError(f"seed expects a whole number from 0 on, got {study.seed}.")
    for problem in study.problems():
        raise ValueError(problem)
    for wrong in _wrong(study):
        raise ValueError(f"{study.name} {wrong}")


def _wrong(study: Study) -> Iterator[str]:
    cells, inside = study.cells(), study.inside()
    empty = [name for name, values in cells.items() if not len(values)]
    if not cells or empty:
        yield f"has no cells: {', '.join(empty)} is empty." if empty else "has no cells: it names no axes for them."
    twice = sorted(cells.keys() & inside.keys())
    if twice:
        yield f"has {', '.join(twice)} among its cells and within them; an axis is one or the other."
    for variable, dims in study.outputs.items():
        if variable in (*_TAKEN, *cells, *inside):
            yield f"has an output {variable!r}, which is the name of an axis or of what every cube has."
        unknown = [dim for dim in dims if dim not in inside]
        if unknown:
            yield f"has an output {variable!r} with the axes {', '.join(unknown)}, which inside() does not name."
    for variable in study.types:
        if variable not in study.outputs:
            yield f"has a type for {variable!r}, which is none of its outputs."
        if study.type_of(variable).kind not in _KINDS:
            kind = study.types[variable]
            yield f"has the type {kind!r} for {variable!r}; floats, whole numbers and booleans are kept."
