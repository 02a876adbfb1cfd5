"""Packages that only a part of calibdask needs, and the extra that brings them."""

from importlib.util import find_spec
from typing import Literal, NamedTuple

from calibdask.errors import NotInstalled


class _Need(NamedTuple):
    """What needs an extra, in words, and the packages that it needs."""

    who: str
    packages: tuple[str, ...]


_NEEDS: dict[str, _Need] = {
    "cluster": _Need("Certificates, which clusters authenticate by,", ("cryptography",)),
    "netcdf": _Need("Files of netCDF", ("h5netcdf", "h5py")),
    "plot": _Need("Plots and the explorer", ("bokeh", "holoviews", "panel")),
}


def check_extra(extra: Literal["cluster", "netcdf", "plot"]) -> None:
    """Raise NotInstalled if a package is missing that this extra brings.

    Examples
    --------
    >>> check_extra("netcdf")
    """
    need = _NEEDS[extra]
    missing = [package for package in need.packages if find_spec(package) is None]
    if missing:
        raise NotInstalled(
            f'{need.who} expect {", ".join(missing)}, not installed here: pip install "calibdask[{extra}]".'
        )
