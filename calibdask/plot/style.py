"""The style of all plots: colours, names of axes and formats of numbers."""

# Okabe and Ito's colours, which colour-blind readers tell apart, without the yellow one, which is pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Scores that are too low, and too high; the others are for results over each other, with the dashes of their lines.
UNDER, OVER, *_OTHERS = PALETTE
SERIES = tuple(_OTHERS)
DASHES = ("solid", "dashed", "dotted", "dashdot", "solid")
LINE, BARS, OUTLINE = "#8c8c8c", "#9fb3c8", "#5b7590"
# The line of a picture that has no sides, and those it is held to.
MAIN, REFERENCE = UNDER, "#444444"
DIAGONAL, BAND, MEDIAN, GRID = "#6e6e6e", "#555555", "#222222", "#e8ebee"

# Names of axes.
SCORE, MEAN_SCORE = "score", "mean score"
FREQUENCY, PROBABILITY = "frequency of the outcome", "probability of the outcome"
CONFIDENCE, ACCURACY = "confidence", "accuracy"
ROWS, SHARE, DENSITY = "rows", "share", "density"

# A little room for points at 0 and 1.
LIMITS = (-0.02, 1.02)
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
# Columns of bins and of curves that the pointer shows, in the notation of Bokeh: numbers, on any scale of the axes.
BIN_TOOLTIPS = (
    ("mean score", "@mean_score{0.0000}"),
    ("frequency", "@frequency{0.0000}"),
    ("gap", "@gap{+0.0000}"),
    ("rows", "@rows{0,0}"),
)
CURVE_TOOLTIPS = (
    ("score", "@at{0.0000}"),
    ("probability", "@frequency{0.0000}"),
    ("gap", "@gap{+0.0000}"),
    ("density", "@density{0.000}"),
)


def number_text(value: float) -> str:
    """A calibration error in a heading.

    Examples
    --------
    >>> number_text(0.0699523)
    '0.0700'
    """
    return f"{value:.4f}"
