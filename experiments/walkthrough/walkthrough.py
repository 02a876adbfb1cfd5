# %% [markdown]
# # Walkthrough of handwritten digits
#
# This walkthrough examines two models on the 1797 handwritten digits of scikit-learn, and asks in each section how well
# calibrated their probabilities are. Each section is a cell: open the file as a notebook in an editor that knows
# `# %%`, or run all of it with `python -m experiments.walkthrough`.

# %%
import numpy as np
import xarray as xr
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import calibdask as cd
import calibdask.accessor  # results have the table `calib.table()`
from calibdask.plot import reliability_curve, reliability_diagram, save

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
# ## Evaluate, with intervals
#
# For a file, the command is `calibdask evaluate forest.parquet --metric brier,log-loss,ece,smooth-ece --ci 0.95`.

# %%
metrics = [cd.BrierScore(), cd.LogLoss(), cd.ECE(), cd.SmoothECE()]
scores = forest.predict_proba(measuring)
before = cd.evaluate(labels, scores, metrics, ci=0.95)
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
