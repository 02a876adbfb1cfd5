"""Files of plots: an HTML page that needs no network, or an image."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from calibdask.extras import check_extra
from calibdask.markup import Html
from calibdask.plot.options import mark_ticks, styled
from calibdask.plot.style import OVER, UNDER

# Suffixes that `save` writes.
FORMATS = (".html", ".png", ".svg")


def save(plot: Any, path: str | Path, *, title: str = "calibdask", lead: str = "", dpi: int = 120) -> None:
    """Write plots to a file: ``.html`` is a page that needs no network, ``.png`` and ``.svg`` need Matplotlib.

    Images are of plots of this module; others, such as those of hvPlot, are written as ``.html``.

    Parameters
    ----------
    plot : holoviews object, or mapping from heading to holoviews object
        Several plots form one page (``.html`` only).
    path : str or Path
    title, lead : str
        Title and first paragraph of the page.
    dpi : int, default 120
        Dots per inch of images.

    Raises
    ------
    ValueError
        If the suffix is not one of these, several plots or a plot of another package are to be written to an image, or
        Matplotlib is not installed.

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
    if not _is_styled(plot):
        # Matplotlib would ignore its Bokeh options: colours, logarithmic axes, sizes.
        raise ValueError(
            f"{suffix} expects a plot of calibdask.plot, got {type(plot).__name__}. Write .html; or call "
            "hvplot.extension('matplotlib') before plotting, then "
            f"holoviews.save(plot, {str(path)!r}, backend='matplotlib')."
        )
    import matplotlib

    # Labels are texts: Matplotlib would read what is between two dollar signs as a formula.
    with matplotlib.rc_context({"text.parse_math": False}):
        hv.save(styled(plot, "matplotlib", plot._max_cols), path, fmt=suffix[1:], backend="matplotlib", dpi=dpi)


def _is_styled(plot: Any) -> bool:
    """Whether every panel is a plot of this package, which has options for Matplotlib."""
    import holoviews as hv

    def has_own_ticks(part: Any) -> bool:
        options = hv.Store.lookup_options("bokeh", part, "plot").kwargs
        return mark_ticks in (options.get("hooks") or [])

    panels = [panel for panel in plot if not isinstance(panel, hv.Empty)] if isinstance(plot, hv.Layout) else []
    return bool(panels) and all(any(map(has_own_ticks, panel.traverse())) for panel in panels)


def check_format(path: str | Path) -> None:
    """Raise ValueError if `save` cannot write a file of this name in this environment."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"A plot expects a file name that ends in one of {', '.join(FORMATS)}, got {str(path)!r}.")
    check_extra("plot")
    if suffix != ".html" and find_spec("matplotlib") is None:
        raise ValueError(f"{suffix} files need matplotlib; install it, or write an .html file.")


_SIDES = """On the dashed line both agree; <span class="over">below it</span> scores are too high,
<span class="under">above it</span> too low."""
# How to read a plot, by an element or a group of elements that only plots of this kind have.
_LEGENDS = {
    "Points": f"""
Each point is a bin: the frequency of the outcome against the mean score. {_SIDES} Larger points hold more rows, which
the bars beneath count. Hover over a point or a bar for its numbers.""",
    "Reliability": f"""
Each curve is the probability of the outcome given the score. {_SIDES} Beneath are the scores: where there are few, the
curve rests on few rows. Hover over the curve for its numbers.""",
    "Pointwise": """
The dark band is pointwise, the light one simultaneous for the whole curve; the dotted line is the median of the
bootstrap. Where these are corrected for the bias of smoothing, the curve may leave them near its ends.""",
    "Decision curve": """
A decision curve is the net benefit of treating those whose score is above a threshold. The scores are of use at the
thresholds where the line is above both others: treat all, and treat none.""",
    "Risk coverage curve": """
A risk-coverage curve is the error rate among the most confident answers, by their share. With the best possible order
of the same errors all of them come last; an order that tells nothing has the error rate of all answers.""",
    "Murphy curve": """
A Murphy curve is the mean elementary score by threshold, of which all proper scores are mixtures; lower is better.""",
    "Calibration belt": """
A calibration belt covers the curves that the data do not exclude, as a whole: where the dashed line of calibration
leaves it anywhere, calibration is rejected at that level. It ends with the scores that occur.""",
}

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="$policy">
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
$legends
$figures
</body>
</html>
""")


def _page(plots: Mapping[str, Any], title: str, lead: str) -> str:
    """A page that includes its scripts."""
    import holoviews as hv
    from bokeh.embed import components
    from bokeh.resources import Resources

    drawing, elements = components([hv.render(plot, backend="bokeh") for plot in plots.values()], wrap_script=False)
    headings = [Html("<h2>{}</h2>\n").format(heading) if heading else "" for heading in plots]
    figures = [f"{heading}<figure>{element}</figure>" for heading, element in zip(headings, elements, strict=True)]
    # Bokeh's own scripts only: by default it also links to files of all packages that extend it.
    codes = [*Resources("inline", components=["bokeh"]).js_raw, drawing]
    *library, drawn = (f"<script>{code}</script>" for code in codes)
    return _PAGE.substitute(
        policy=_policy(codes),
        title=Html.escape(title),
        lead=Html("<p>{}</p>").format(lead) if lead else "",
        legends="\n".join(f"<p>{text.strip()}</p>" for text in _legends(plots.values())),
        scripts="\n".join(library),
        figures="\n".join([*figures, drawn]),
        over=OVER,
        under=UNDER,
    )


def _policy(codes: Iterable[str]) -> str:
    """Content security policy of the page: only these scripts run, and nothing is loaded."""
    hashes = (b64encode(sha256(code.encode()).digest()).decode() for code in codes)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    others = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {others}"


def _legends(plots: Iterable[Any]) -> list[str]:
    """How to read these plots."""
    parts = [part for plot in plots for part in plot.traverse()]
    kinds = {type(part).__name__ for part in parts} | {part.group for part in parts}
    return [text for kind, text in _LEGENDS.items() if kind in kinds]
