# %% [markdown]
# # Walkthrough on real data
#
# This walkthrough examines two models on the 1797 handwritten digits of scikit-learn, and asks in each section how well
# calibrated their probabilities are. Each section is a cell: open the file as a notebook in an editor that knows
# `# %%`, or run all of it with `python -m experiments.walkthrough`.

# %%
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import calibdask as cd
import calibdask.accessor  # results have the table `calib.table()`
from calibdask.plot import reliability_curve, reliability_diagram, save

kept = tempfile.TemporaryDirectory(prefix="calibdask-")
folder = Path(kept.name)

# %% [markdown]
# ## Predict
#
# One third of the digits is used to fit the models, one third to calibrate them later, and one third to evaluate them.

# %%
images, digits = load_digits(return_X_y=True)
fitting, others, fitting_labels, other_labels = train_test_split(
    images, digits, test_size=2 / 3, random_state=0, stratify=digits
)
calibrating, measuring, calibrating_labels, labels = train_test_split(
    others, other_labels, test_size=1 / 2, random_state=0, stratify=other_labels
)
forest = RandomForestClassifier(random_state=0).fit(fitting, fitting_labels)
bayes = GaussianNB().fit(fitting, fitting_labels)
for name, model in {"random forest": forest, "naive Bayes": bayes}.items():
    print(f"{name}: {model.score(measuring, labels):.1%} of {len(labels)} digits right")

# %% [markdown]
# ## Store
#
# Scored rows form a table: the label, a score for each class, and columns that define slices, here the amount of ink.
# Stored rows can be evaluated from Python and from the shell, whatever their size.

# %%
scores = forest.predict_proba(measuring)
ink = pd.qcut(measuring.sum(axis=1), 3, labels=["thin", "medium", "thick"]).astype(str)
table = pd.DataFrame(scores, columns=[f"score_{digit}" for digit in range(10)]).assign(label=labels, ink=ink)
table.to_parquet(folder / "forest.parquet")
rows = cd.read_rows(str(folder / "forest.parquet"), by=["ink"])

# %% [markdown]
# ## Evaluate, with intervals
#
# The corresponding command is `calibdask evaluate forest.parquet --metric brier,log-loss,ece,smooth-ece --ci 0.95`.

# %%
metrics = [cd.BrierScore(), cd.LogLoss(), cd.ECE(), cd.SmoothECE()]
before = cd.evaluate(rows.labels, rows.scores, metrics, ci=0.95)
print(before.calib.table())

# %% [markdown]
# Nearly every digit is recognized, and yet the confidence of the random forest is off by a quarter: as the last line
# shows, it is too low on average. The numbers do not show at which scores.
#
# ## Plot
#
# Naive Bayes is added as a second entry of the dimension `model`. Dimensions of the scores other than rows and classes
# are kept in the results, and each of their entries gets its own panel in plots.

# %%
both = xr.DataArray(
    np.stack([scores, bayes.predict_proba(measuring)]),
    dims=("model", "sample", "class"),
    coords={"model": ["random forest", "naive Bayes"]},
)
save(reliability_diagram(cd.reliability_diagram(labels, both, bins=10)), "models.png")

# %% [markdown]
# ![Reliability diagrams of two models: the points of the random forest lie far above the diagonal, those of naive Bayes
# below it](models.png)
#
# The random forest states 60 % where it is nearly always right, because averages over trees avoid 0 and 1. Naive Bayes
# is nearly always certain, and too often wrong.
#
# The choice of bins is arbitrary, and points do not show sampling noise. A reliability curve needs no bins and shows
# the noise: with 95 % confidence, the true value at a single score lies in the dark band, and the whole true curve in
# the light band.

# %%
curve = cd.reliability_curve(labels, scores, bandwidth=0.05, ci=0.95)
save(reliability_curve(curve, title="random forest"), "curve.png")

# %% [markdown]
# ![Reliability curve of the random forest with its bands, which are far above the diagonal from a score of 0.3
# on](curve.png)
#
# ## Which number to trust
#
# The calibration error alone would select the wrong model, because it does not measure discrimination. A proper score
# measures both, and `CORP` separates them: score = miscalibration - discrimination + uncertainty.

# %%
parts = cd.evaluate(labels, both, [cd.SmoothECE(), cd.BrierScore(), cd.CORP()]).to_dataframe()
print(parts[["smooth_ece", "brier_score", "corp_miscalibration", "corp_discrimination"]].round(3).T.to_string())

# %% [markdown]
# Naive Bayes has the smaller calibration error and by far the worse Brier score. Miscalibration can be corrected, as
# shown below; missing discrimination cannot.
#
# ## Slices
#
# Is calibration the same for thin and thick digits? With `by`, every number is computed for every slice; `worst_slices`
# ranks the slices by the lower ends of their intervals.

# %%
by_ink = cd.evaluate(rows.labels, rows.scores, cd.SmoothECE(), by=rows.by, ci=0.95)
worst = cd.worst_slices(by_ink, "smooth_ece").to_dataframe()
print(worst.round(3).to_string())

# %% [markdown]
# The intervals overlap widely: the differences between these slices may be due to chance.
#
# ## Compare two models
#
# The models are compared on the same resampled rows, so that rows that are difficult for both do not affect the
# difference.

# %%
models = {name: both.sel(model=name).values for name in both.model.values}
compared = cd.compare(labels, models, metrics=[cd.BrierScore(), cd.SmoothECE()]).squeeze("challenger")
for name in ("brier_score", "smooth_ece"):
    ends = [compared[f"{name}_difference_{part}"].item() for part in ("low", "high", "pvalue")]
    print("{}: naive Bayes less random forest in [{:.3f}, {:.3f}], p = {:.3f}".format(name, *ends))

# %% [markdown]
# ## Calibrate
#
# The calibration map is fitted to rows that were used neither for fitting nor for evaluation. With few rows, a monotone
# map is the safer choice.

# %%
calibrator = cd.LCECalibrator(monotone=True).fit(calibrating_labels, forest.predict_proba(calibrating))
calibrated = calibrator.predict_proba(scores)
after = cd.evaluate(labels, calibrated, metrics, ci=0.95)
print(after.calib.table())
third = xr.DataArray(calibrated[np.newaxis], dims=both.dims, coords={"model": ["random forest, calibrated"]})
three = xr.concat([both, third], dim="model")
save(reliability_diagram(cd.reliability_diagram(labels, three, bins=10)), "calibrated.png")

# %% [markdown]
# ![Reliability diagrams: the random forest above the diagonal, naive Bayes below it, and the calibrated forest, nearly
# all of whose rows are on it](calibrated.png)
#
# The calibration error has decreased to a tenth, and its interval starts at 0: calibrated models have errors as large
# by chance. The Brier score has decreased by half. The log-loss has not decreased: a map fitted to 599 rows assigns a
# probability of 0 to some digits that do occur, for which this score has no upper bound. One number is not enough.
#
# ## How certain is a single prediction?
#
# From the number of rows that it was fitted to at each score, the calibrator computes an interval for each probability.

# %%
doubtful = int(np.argmin(np.abs(calibrated.max(axis=1) - 0.75)))
low, high = calibrator.predict_interval(scores[[doubtful]])
for digit in np.argsort(-calibrated[doubtful])[:2]:
    pair = f"forest {scores[doubtful, digit]:.2f}, calibrated {calibrated[doubtful, digit]:.2f}"
    print(f"a {digit}? {pair}, interval [{low[0, digit]:.2f}, {high[0, digit]:.2f}]")
print(f"it is a {labels[doubtful]}")

# %% [markdown]
# This interval is wide, because few of the digits used for calibration had such a score.
#
# ## Test
#
# Could the deviation of a calibrated model be this large by chance? `SKCETest` tests whole score vectors, using all
# pairs of rows.

# %%
tested = cd.evaluate(labels, three, cd.SKCETest())
for name, chance in zip(tested.model.values, tested.skce_test_pvalue.values, strict=True):
    print(f"{name}: p = {chance:.3f}")

# %% [markdown]
# A small p-value is evidence against calibration; a large one does not prove it. With millions of rows every model is
# rejected; in that case, use `delta` to test whether the error is small enough.
#
# ## Merging summaries
#
# A summary stands in for the rows, in a few hundred kilobytes for any number of rows. Its slices can be pooled, and
# `cd.merge` unites the summaries of different rows, so that the days of a month need not be read again.

# %%
summary = cd.summarize(labels, scores, by={"ink": ink})
whole = cd.evaluate(summary.sum("ink"), metrics=cd.ECE())
print(f"ECE from the summaries of slices {float(whole.ece):.6f}, from the rows {float(before.ece):.6f}")

# %% [markdown]
# ## A small study
#
# How does the number of rows affect these numbers? A study is a grid of cells together with a function that computes
# one cell; here, the errors of the calibrated forest on small random samples of the rows. `cd.run` stores the results
# in a cube, using threads or a cluster, and resumes after interruptions.


# %%
@dataclass(frozen=True, kw_only=True)
class FewRows(cd.Study):
    """Calibration errors of few rows."""

    sizes: tuple[int, ...] = (50, 150, 450)
    draws: int = 200

    outputs: ClassVar = {"ece": ("draw",), "smooth_ece": ("draw",)}

    def cells(self) -> Mapping[str, Any]:
        return {"size": self.sizes}

    def inside(self) -> Mapping[str, Any]:
        return {"draw": range(self.draws)}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> Mapping[str, Any]:
        random = seeds.generator()
        drawn = np.stack([random.choice(len(labels), at["size"], replace=False) for _ in range(self.draws)])
        errors = cd.evaluate(labels[drawn], calibrated[drawn], [cd.ECE(), cd.SmoothECE()])
        return {name: errors[name].values for name in self.outputs}


cd.run(FewRows(), folder / "few-rows.zarr")
few = cd.open_cube(str(folder / "few-rows.zarr")).mean("draw")[["ece", "smooth_ece"]].to_dataframe()
print(few.round(3).to_string())
print(f"all {len(labels)} rows: {float(after.ece):.3f} and {float(after.smooth_ece):.3f}")
kept.cleanup()

# %% [markdown]
# With 50 rows, the ECE with 15 bins is more than twice as large as with all rows, which is due to chance alone;
# `SmoothECE` is affected slightly less. Whichever number you report, state the number of rows and the interval.
