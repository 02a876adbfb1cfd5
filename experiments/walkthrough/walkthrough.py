# %% [markdown]
# # A walk through on real data
#
# 1797 handwritten digits that come with scikit-learn, two models, and the question of every section: how far can the
# probabilities be believed? Each section is a cell; open the file as a notebook in an editor that knows `# %%`, or run
# it whole with `python -m experiments.walkthrough`.

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
# A third of the digits to fit the models, a third to calibrate them later, a third to measure on.

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
# Scored rows are a table: the label, a score for each class, and whatever one may want to slice by; here how much ink
# there is. What is stored once can be measured from Python and from the shell, however large it is.

# %%
scores = forest.predict_proba(measuring)
ink = pd.qcut(measuring.sum(axis=1), 3, labels=["thin", "medium", "thick"]).astype(str)
table = pd.DataFrame(scores, columns=[f"score_{digit}" for digit in range(10)]).assign(label=labels, ink=ink)
table.to_parquet(folder / "forest.parquet")
rows = cd.read_rows(str(folder / "forest.parquet"), by=["ink"])

# %% [markdown]
# ## Evaluate, with intervals
#
# The shell says the same: `calibdask evaluate forest.parquet --ci 0.95`.

# %%
metrics = [cd.BrierScore(), cd.LogLoss(), cd.ECE(), cd.SmoothECE()]
before = cd.evaluate(rows.labels, rows.scores, metrics, ci=0.95)
print(before.calib.table())

# %% [markdown]
# Nearly every digit is recognized, and yet the forest's confidence is off by a quarter. In which direction no number
# says.
#
# ## Look
#
# Naive Bayes beside it, as a second entry of the dimension `model`: whatever dimensions scores have besides rows and
# classes stay in the results, and get a panel each in pictures.

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
# The forest says 60 % where it is right nearly always: averages of trees shy away from 0 and 1. Naive Bayes is nearly
# always certain, and too often wrong.
#
# Bins are a choice, and points say nothing of chance. A curve does without the one and tells the other: at a single
# score the truth is in the dark band, and all along the curve in the light one, with 95 %.

# %%
curve = cd.reliability_curve(labels, scores, bandwidth=0.05, ci=0.95)
save(reliability_curve(curve, title="random forest"), "curve.png")

# %% [markdown]
# ![Reliability curve of the random forest with its bands, which leave the diagonal far below from a score of 0.3
# on](curve.png)
#
# ## Which number to trust
#
# The calibration error alone would choose the wrong model: it says nothing of how well the digits are told apart. A
# proper score says both at once, and `CORP` takes it apart: score = miscalibration - discrimination + uncertainty.

# %%
parts = cd.evaluate(labels, both, [cd.SmoothECE(), cd.BrierScore(), cd.CORP()]).to_dataframe()
print(parts[["smooth_ece", "brier_score", "corp_miscalibration", "corp_discrimination"]].round(3).T.to_string())

# %% [markdown]
# Naive Bayes has the smaller calibration error and the far worse Brier score. Miscalibration can be mended, as below;
# discrimination that is not there cannot.
#
# ## Slices
#
# Is it the same for digits of thin and of thick lines? Give `by`, and every number is there for every slice;
# `worst_slices` puts them in the order of how bad they are for certain.

# %%
by_ink = cd.evaluate(rows.labels, rows.scores, cd.SmoothECE(), by=rows.by, ci=0.95)
worst = cd.worst_slices(by_ink, "smooth_ece").to_dataframe()
print(worst.round(3).to_string())

# %% [markdown]
# The intervals overlap by far: what differs between these slices may well be chance.
#
# ## Compare two models
#
# On the same rows, resampled together, so that what is hard for both counts for neither.

# %%
models = {name: both.sel(model=name).values for name in both.model.values}
compared = cd.compare(labels, models, metrics=[cd.BrierScore(), cd.SmoothECE()]).squeeze("challenger")
for name in ("brier_score", "smooth_ece"):
    ends = [compared[f"{name}_difference_{part}"].item() for part in ("low", "high", "pvalue")]
    print("{}: naive Bayes less random forest in [{:.3f}, {:.3f}], p = {:.3f}".format(name, *ends))

# %% [markdown]
# ## Calibrate
#
# On the rows that neither fitting nor measuring has seen. With few rows a map that cannot decrease is the safer one.

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
# The calibration error is a tenth of what it was, and its interval begins at 0: calibrated models have as large an
# error by chance. The Brier score has fallen by half. The log-loss has not: a map learnt from 599 rows gives some
# digits a probability of 0 that occur after all, which this score punishes without bounds. One number is not enough.
#
# ## How certain is a single prediction?
#
# The calibrator knows how many rows it has learnt from at each score, and gives every probability an interval.

# %%
doubtful = int(np.argmin(np.abs(calibrated.max(axis=1) - 0.75)))
low, high = calibrator.predict_interval(scores[[doubtful]])
for digit in np.argsort(-calibrated[doubtful])[:2]:
    told = f"forest {scores[doubtful, digit]:.2f}, calibrated {calibrated[doubtful, digit]:.2f}"
    print(f"a {digit}? {told}, interval [{low[0, digit]:.2f}, {high[0, digit]:.2f}]")
print(f"it is a {labels[doubtful]}")

# %% [markdown]
# A wide one: few of the digits that it has learnt from had such a score.
#
# ## Test
#
# Could a calibrated model look like this by chance? `SKCETest` looks at whole vectors of scores, in all pairs of rows.

# %%
tested = cd.evaluate(labels, three, cd.SKCETest())
for name, chance in zip(tested.model.values, tested.skce_test_pvalue.values, strict=True):
    print(f"{name}: p = {chance:.3f}")

# %% [markdown]
# A small p-value is evidence against calibration; a large one is no proof of it. With millions of rows every model
# fails: then ask by `delta` whether the error is small enough.
#
# ## Summaries that add up
#
# A summary stands for the rows, in a few hundred kilobytes however many there are. Those of parts add up to that of
# the whole, so that a month needs no second look at its days.

# %%
summary = cd.summarize(labels, scores, by={"ink": ink})
whole = cd.evaluate(summary.sum("ink"), metrics=cd.ECE())
print(f"ECE from the summaries of slices {float(whole.ece):.6f}, from the rows {float(before.ece):.6f}")

# %% [markdown]
# ## A small study
#
# How much does the number of rows matter? A study is a grid of cells and one function that computes a cell: here errors
# of the calibrated forest on a few rows drawn from those there are. `cd.run` fills a cube with it, on threads or on a
# cluster, and goes on where it was stopped.


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
# With 50 rows the ECE of 15 bins is more than twice what it is with all of them, and that is nothing but chance;
# `SmoothECE` suffers a little less. Whatever you report: say how many rows, and give the interval.
