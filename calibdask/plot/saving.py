"""Saving pictures: one page that opens without a network, or a file for a paper."""

from collections.abc import Iterable, Mapping
from html import escape
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from calibdask.plot.look import OVER, UNDER, styled

__all__ = ["FORMATS", "check_format", "save"]

# Suffixes that `save` knows.
FORMATS = (".html", ".png", ".svg")


def save(plot: Any, path: str | Path, *, title: str = "calibdask", lead: str = "") -> None:
    """Write a plot: ``.html`` is one page that opens without a network, ``.png`` and ``.svg`` need matplotlib.

    Parameters
    ----------
    plot : holoviews object, or mapping from heading to holoviews object
        Several plots make one page, ``.html`` only.
    path : str or Path
    title, lead : str
        Title and first paragraph of the page.

    Raises
    ------
    ValueError
        If the suffix is none of these, or does not fit, or matplotlib is not there.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibdask as cd
    >>> from calibdask.plot import reliability_diagram, save
    >>> diagram = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(diagram, os.path.join(folder, "page.html"))
    ...     os.listdir(folder)
    ['page.html']
    """
    check_format(path)
    import holoviews as hv

    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        Path(path).write_text(_page(plot if isinstance(plot, Mapping) else {"": plot}, title, lead), encoding="utf-8")
        return
    if isinstance(plot, Mapping):
        raise ValueError(f"Several plots expect an .html file, got {str(path)!r}.")
    hv.save(styled(plot, "matplotlib", plot._max_cols), path, fmt=suffix[1:], backend="matplotlib", dpi=120)


def check_format(path: str | Path) -> None:
    """Raise ValueError if `save` could not write a file of this name here."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"A plot expects a file name that ends in one of {', '.join(FORMATS)}, got {str(path)!r}.")
    if suffix != ".html" and find_spec("matplotlib") is None:
        raise ValueError(f"{suffix} files expect matplotlib; install it, or write an .html file.")


# How to read a picture, by an element or a group of elements that only pictures of this kind have.
_READING = {
    "Points": """
Each point is a bin: how often the outcome came true, against the mean score. On the dashed line both agree;
<span class="over">below it</span> the scores promise more than comes true, <span class="under">above it</span> less.
Larger points hold more rows; the bars beneath count them. Point at anything for its numbers.""",
    "Reliability": """
Each curve is the probability that the outcome comes true, given the score. On the dashed line both agree;
<span class="over">below it</span> the scores promise more than comes true, <span class="under">above it</span> less.
The area beneath is the density of the scores: where it is low, the curve rests on few rows. Point at the curve for its
numbers.""",
    "Pointwise": """
The dark band is for a curve at one score, the light one for its whole length; the dotted line is the median of the
bootstrap. Where these are corrected for the bias of smoothing, a curve may leave them near its ends.""",
}

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
  body { margin: 2rem auto; max-width: 1450px; padding: 0 1.5rem; color: #222;
         font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
  h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 1.8rem 0 .4rem; }
  p { max-width: 60rem; margin: .3rem 0 1rem; } figure { margin: 0; overflow-x: auto; }
  .over { color: $over; font-weight: 600; } .under { color: $under; font-weight: 600; }
</style>
$scripts
</head>
<body>
<h1>$title</h1>
$lead
$reading
$figures
</body>
</html>
""")


def _page(plots: Mapping[str, Any], title: str, lead: str) -> str:
    """One page with its scripts inside."""
    import holoviews as hv
    from bokeh.embed import components
    from bokeh.resources import Resources

    script, places = components([hv.render(plot, backend="bokeh") for plot in plots.values()])
    figures = [
        (f"<h2>{escape(heading)}</h2>\n" if heading else "") + f"<figure>{place}</figure>"
        for heading, place in zip(plots, places, strict=True)
    ]
    return _PAGE.substitute(
        title=escape(title),
        lead=f"<p>{escape(lead)}</p>" if lead else "",
        reading="\n".join(f"<p>{words.strip()}</p>" for words in _reading(plots.values())),
        # Bokeh's own scripts alone: left to itself it also points to files of all packages that extend it.
        scripts="\n".join(f"<script>{code}</script>" for code in Resources("inline", components=["bokeh"]).js_raw),
        figures="\n".join([*figures, script]),
        over=OVER,
        under=UNDER,
    )


def _reading(plots: Iterable[Any]) -> list[str]:
    """How to read these pictures."""
    kinds = {kind for plot in plots for each in plot.traverse() for kind in (type(each).__name__, each.group)}
    return [words for kind, words in _READING.items() if kind in kinds]
