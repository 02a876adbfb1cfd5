# %% [markdown]
# # Walkthrough of a credit portfolio
#
# A lender has scored its loans with an old scorecard for two years, and wants to replace it. Which of two models is
# better, how far off is it, for whom, since when, and may it ship? The portfolio is simulated, so the answers can be
# compared with the truth. Each section is a cell: open the file as a notebook in an editor that knows `# %%`, or run
# all of it with `python -m experiments.walkthrough`.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import calibdask as cd
import calibdask.accessor  # results have the table `calib.table()`

# %% [markdown]
# ## The portfolio
#
# Loans of 24 months, 4000 a month. Defaults depend on income, debt, arrears and age. Two mechanisms are planted that
# neither model knows:
#
# - customers under 30 who come by a broker default more often, from the beginning;
# - the whole south defaults more often from January 2025 on.

# %%
rng = np.random.default_rng(0)
months = np.arange("2024-01", "2026-01", dtype="datetime64[M]")
n = months.size * 4000
loans = pd.DataFrame(
    {
        "month": np.repeat(months.astype(str), 4000),
        "region": rng.choice(["north", "south", "east", "west"], n),
        "channel": rng.choice(["branch", "web", "broker"], n, p=[0.4, 0.4, 0.2]),
        "age": rng.integers(20, 75, n),
        "income": rng.lognormal(7.8, 0.5, n),
        "debt": rng.beta(2, 3, n),
        "arrears": rng.poisson(0.4, n),
    }
)
odds = -3.6 - 0.8 * (np.log(loans.income) - 7.8) + 1.5 * (loans.debt - 0.4) + 0.9 * loans.arrears.clip(upper=3)
young_by_broker = (loans.age < 30) & (loans.channel == "broker")
south_since_2025 = (loans.region == "south") & (loans.month >= "2025-01")
odds += 1.0 * young_by_broker + 0.6 * south_since_2025
loans["default"] = (rng.random(n) < expit(odds)).astype(int)
for year in ("2024", "2025"):
    defaults = loans.default[loans.month.str.startswith(year)]
    print(f"{year}: {defaults.size:,} loans, {defaults.sum():,} defaults ({defaults.mean():.2%})")

# %% [markdown]
# ## Two models
#
# The scorecard is a logistic regression of income and debt, the candidate boosted trees that also use arrears and age.
# Both are fitted to the first half of 2024, and score all later loans.

# %%
fitting = (loans.month < "2024-07").to_numpy()
later = loans[~fitting].reset_index(drop=True)
scorecard = LogisticRegression(max_iter=1000).fit(np.log(loans[["income", "debt"]])[fitting], loans.default[fitting])
columns = ["income", "debt", "arrears", "age"]
trees = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.05, random_state=0)
trees.fit(loans[columns][fitting], loans.default[fitting])
later["old"] = scorecard.predict_proba(np.log(later[["income", "debt"]]))[:, 1]
later["new"] = trees.predict_proba(later[columns])[:, 1]
first = later[later.month < "2025-01"]  # the half year before the change
print(f"{len(first):,} loans of the second half of 2024, {first.default.sum():,} defaults")

# %% [markdown]
# ## Which is better?
#
# By a proper score, on the same rows, before anything has changed.

# %%
metrics = [cd.LogLoss(), cd.SmoothECE()]
compared = cd.compare(first.default, {"old": first.old, "new": first.new}, metrics=metrics, n_boot=200)
compared = compared.squeeze("challenger")
for name in ("log_loss", "smooth_ece"):
    low, high, chance = (compared[f"{name}_difference_{part}"].item() for part in ("low", "high", "pvalue"))
    print(f"{name}: new less old in [{low:+.4f}, {high:+.4f}], p = {chance:.3f}")

# %% [markdown]
# The candidate has the lower log-loss. The calibration error does not distinguish the two: the scorecard is about as
# well calibrated, but ranks worse.
#
# ## How far off?

# %%
result = cd.evaluate(first.default, first.new, [cd.SmoothECE(), cd.MeanGap(), cd.ObservedExpected()], ci=0.95)
print(result.calib.table())
figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
for name in ("old", "new"):
    bins = cd.reliability_diagram(first.default, first[name], bins=10, binning="equal-mass", ci=0.95)
    ends = np.abs([bins.outcome_low - bins.outcome, bins.outcome_high - bins.outcome])
    axes.errorbar(bins.score, bins.outcome, yerr=ends, fmt="o", markersize=4, label=name)
axes.axline((0, 0), slope=1, color="grey", linestyle="dashed")
axes.set(xlabel="mean score", ylabel="share of defaults")
axes.legend()
figure.savefig("portfolio-bins.png", dpi=120)

# %% [markdown]
# ![Shares of defaults by mean score, in ten bins of equally many loans: both models are near the diagonal, and scores
# of the new one reach further](portfolio-bins.png)
#
# On average nothing is wrong. An average says nothing about any single group.
#
# ## For whom?
#
# `cd.audit` tests all segments of the columns together, including columns that the model does not use.

# %%
features = first[["region", "channel", "age", "income", "debt", "arrears"]]
audit = cd.audit(first.default, first.new, features)
print(audit.attrs["conclusion"])
for segment in audit.segment[audit.described].values[:3]:
    here = audit.sel(segment=segment)
    low, high = 100 * here.gap_low.item(), 100 * here.gap_high.item()
    print(f"{segment}: {here.rows.item():,} loans, {low:+.1f} to {high:+.1f} points")

# %% [markdown]
# The first mechanism is found without naming its columns. The segment that was planted is
# `age < 30, channel = broker`; ages are cut at quantiles.
#
# ## Since when?
#
# A summary by month and region replaces the rows. `cd.watch` bets against the model, month by month; its alarms are
# valid however often one looks.

# %%
summary = cd.summarize(later.default, later.new, by={"month": later.month, "region": later.region}, settings=["binary"])
watched = cd.watch(summary, period="month", by="region", tolerance=0.002)
last = watched.isel(month=-1)
for region in last.region.values[last.found.values]:
    here = watched.sel(region=region)
    alarm = str(here.month.values[here.found.values.argmax()])[:7]
    since = str(here.since.values[-1])[:7]
    print(f"{region}: off since {since}, alarm in {alarm}")
print(f"{last.found.values.sum()} of {last.found.size} regions")

# %% [markdown]
# ## What changed?
#
# Did the customers change (mix), or do the same customers behave differently (within)?

# %%
before, after = slice(None, "2024-12"), slice("2025-01", None)
change = cd.attribute(summary, before, after, period="month", by="region")
for region in change.region.values:
    here = change.sel(region=region)
    print(f"{region}: mix {100 * here.mix.item():+.3f}, within {100 * here.within.item():+.3f} points")

# %% [markdown]
# The change is within the south. Its customers are the same, but their behaviour has changed.
#
# ## Would recalibration help?
#
# Maps are fitted to the first nine months of 2025 and judged on the last three: for all loans, by region, and for the
# subgroups that an audit finds miscalibrated.

# %%
recent = later[(later.month >= "2025-01") & (later.month < "2025-10")]
fresh = later[later.month >= "2025-10"]
names = ["region", "channel", "age"]
whole = cd.PlattScaling().fit(recent.default, recent.new)
by_region = cd.PlattScaling().fit(recent.default, recent.new, by={"region": recent.region})
mended = cd.MulticalibratedScaling(folds=2).fit(recent.default, recent.new, features=recent[names])
print("moved:", ", ".join(dict.fromkeys(mended.segments_)))
scores = {
    "as it is": fresh.new,
    "one map": whole.predict_proba(fresh.new)[:, 1],
    "by region": by_region.predict_proba(fresh.new, by={"region": fresh.region})[:, 1],
    "where off": mended.predict_proba(fresh.new, fresh[names])[:, 1],
}
for name, mapped in scores.items():
    found = int(cd.audit(fresh.default, mapped, fresh[names]).found.sum())
    print(f"{name}: log-loss {cd.log_loss(fresh.default, mapped):.5f}, {found} segments off")

# %% [markdown]
# A single map also shifts the groups that are calibrated. The map that follows the audit corrects the two planted
# groups.
#
# ## May it ship?
#
# Limits that were declared beforehand, for all loans and for each region.

# %%
limits = {"smooth-ece": 0.015, "mean-gap": 0.01}
outcomes = {}
for name in ("as it is", "where off"):
    gate = cd.check(
        fresh.default, scores[name], limits, slice_limits={"mean-gap": 0.02}, by={"region": fresh.region}, n_boot=200
    )
    outcomes[name] = gate.outcome
    print(f"{name}: {gate.outcome}")
    for judgement in gate.judgements:
        if judgement.outcome != "met":
            print(f"  {judgement.place}: {judgement.value:+.4f}, {judgement.low:+.4f} to {judgement.high:+.4f}")

# %% [markdown]
# The mended candidate ships, with a receipt (`calibdask check --receipt`), and [is
# watched](../../../deploy/docs/watching.md) from its first month on.
