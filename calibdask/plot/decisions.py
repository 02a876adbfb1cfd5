"""Pictures of decisions and of the calibration belt, with HoloViews."""

from typing import Any

import xarray as xr

from calibdask.extras import check_extra
from calibdask.plot.decision_charts import BELT, DECISION, MURPHY, RISK_COVERAGE, Chart, ChartKind, Range
from calibdask.plot.panels import Panel, in_rows, panels_along


def decision_curve(dataset: xr.Dataset, *, title: str = "", metric: str | None = None) -> Any:
    """Decision curve: net benefit of treating by the scores, of treating all and of treating none, by threshold.

    The model is useful at thresholds where its line is above both others. Thresholds are shown as long as there is a
    benefit to gain, and net benefits down to slightly below 0, as "treat all" decreases without bound; to show other
    thresholds, choose them: ``NetBenefit(thresholds=...)``, or ``result.sel(net_benefit_threshold=slice(0.05, 0.3))``.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `calibdask.evaluate` with one `calibdask.NetBenefit`; with ``ci`` the line has its pointwise
        interval. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or prefix of the heading of each panel.
    metric : str, optional
        Name of the metric, needed if the result holds several of this kind.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no such result, several, or more than 60 curves.

    References
    ----------
    .. [1] Vickers, Van Calster & Steyerberg, A simple, step-by-step guide to interpreting decision curve analysis,
       2019.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import decision_curve
    >>> result = cd.evaluate([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], cd.NetBenefit(), ci=0.95)
    >>> [line.label for line in decision_curve(result)[0] if line.label]
    ['95 % interval', 'treat all', 'treat none', 'treat by the scores']
    """
    return _picture(DECISION, dataset, title, metric)


def risk_coverage_curve(dataset: xr.Dataset, *, title: str = "", metric: str | None = None) -> Any:
    """Risk-coverage curve: the error rate among the most confident rows by their share, beside the best possible.

    The best possible order puts all errors last: no error up to a coverage of the accuracy. An uninformative order has,
    on average, the error rate of all rows at each coverage.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `calibdask.evaluate` with one `calibdask.RiskCoverageCurve`; with ``ci`` the line has its
        pointwise interval. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or prefix of the heading of each panel.
    metric : str, optional
        Name of the metric, needed if the result holds several of this kind.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no such result, several, or more than 60 curves.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import risk_coverage_curve
    >>> result = cd.evaluate([1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6], cd.RiskCoverageCurve(points=4))
    >>> [line.label for line in risk_coverage_curve(result)[0] if line.label]
    ['best possible order', 'random order', 'by falling score']
    """
    return _picture(RISK_COVERAGE, dataset, title, metric)


def murphy_curve(dataset: xr.Dataset, *, title: str = "", metric: str | None = None) -> Any:
    """Murphy curve: the mean elementary score by threshold, beside the curve of a constant score, the frequency.

    Lower is better. The area under the curve is half the Brier score. The reference line is drawn if the result has the
    frequency of the same outcome, which it lacks for classes.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `calibdask.evaluate` with one `calibdask.MurphyCurve`; with ``ci`` the line has its pointwise
        interval. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or prefix of the heading of each panel.
    metric : str, optional
        Name of the metric, needed if the result holds several of this kind.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no such result, several, or more than 60 curves.

    References
    ----------
    .. [1] Ehm, Gneiting, Jordan & Krueger, Of quantiles and expectiles: consistent scoring functions, Choquet
       representations and forecast rankings, 2016.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import murphy_curve
    >>> result = cd.evaluate([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], cd.MurphyCurve())
    >>> [line.label for line in murphy_curve(result)[0] if line.label]
    ['the frequency as score', 'scores']
    """
    return _picture(MURPHY, dataset, title, metric)


def calibration_belt(dataset: xr.Dataset, *, title: str = "", metric: str | None = None) -> Any:
    """Calibration belt at 80 and 95 % with its polynomial and the diagonal; the p-value of its test in the heading.

    The belt is for the whole curve: if the diagonal leaves it anywhere, calibration is rejected at that level. It
    covers the range of the observed scores; the axes end with the polynomial.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `calibdask.evaluate` with one `calibdask.CalibrationBelt`. Classes, slices and other dimensions
        get a panel each.
    title : str, optional
        Heading of a single panel, or prefix of the heading of each panel.
    metric : str, optional
        Name of the metric, needed if the result holds several of this kind.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no such result, several, or more than 60 curves.

    References
    ----------
    .. [1] Nattino, Finazzi & Bertolini, A new calibration test and a reappraisal of the calibration belt for the
       assessment of prediction models based on dichotomous outcomes, 2014.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> from calibdask.plot import calibration_belt
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(2000)
    >>> result = cd.evaluate(rng.random(2000) < y_prob**2, y_prob, cd.CalibrationBelt())
    >>> [line.label for line in calibration_belt(result)[0] if line.label]
    ['95 % belt', '80 % belt', 'calibrated', 'polynomial']
    """
    return _picture(BELT, dataset, title, metric)


def _picture(kind: ChartKind, dataset: xr.Dataset, title: str, name: str | None) -> Any:
    check_extra("plot")
    metric = kind.metric(dataset, name)
    shown = panels_along(
        dataset, kind.dims(dataset, metric), lambda at: kind.chart(dataset, metric, at), f"cd.{kind.estimator}"
    )
    reach_x = _common([panel.shown.reach_x for panel in shown])
    reach_y = _common([panel.shown.reach_y for panel in shown])
    # HoloViews spells hyphens out in the names of groups.
    group = kind.name.replace("-", " ")
    return in_rows([_overlay(panel, title, reach_x, reach_y).relabel(group=group) for panel in shown])


def _common(ranges: list[Range]) -> Range:
    """One range for all panels, so that they can be compared."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _overlay(panel: Panel[Chart], title: str, reach_x: Range, reach_y: Range) -> Any:
    """Bands, lines of reference, and over them the line; the first panel has the legend for all."""
    import holoviews as hv

    chart = panel.shown
    x = panel.across("x", chart.across).clone(range=reach_x)
    y = panel.upward("y", chart.upward).clone(range=reach_y)
    named = panel.number == 0
    bands = [
        hv.Area((chart.x, band.high, band.low), x, [y, "low"], group=f"Band {number}", label=band.name * named)
        for number, band in enumerate(chart.bands)
    ]
    references = [
        hv.Curve((chart.x, line.y), x, y, group=f"Reference {number}", label=line.name * named)
        for number, line in enumerate(chart.references)
    ]
    line = hv.Curve((chart.x, chart.line.y), x, y, group="Main", label=chart.line.name * named)
    return hv.Overlay([*bands, *references, line]).relabel(panel.title(title, numbers=chart.numbers))
