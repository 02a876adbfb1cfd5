"""Numbers, curves and tests are frozen descriptions that request statistics and compute results from them.

Recommendations
---------------
Calibration may refer to the predicted class (``setting="confidence"``), to one class or to each class
(``"classwise"``), or to the whole vector of scores. Weaker notions need fewer rows and detect less.

====================================  ==================================================================================
Question                              Recommendation
====================================  ==================================================================================
How good are the scores overall?      `BrierScore` and `LogLoss`: proper scores, without parameters and without bias
How much of that is calibration?      `CORP`, also without parameters; `BrierDecomposition` by bins
How far off are the confidences?      `SmoothECE`: the most accurate of 50 at nearly all sizes up to 5000 rows [2]_;
                                      `ResidualECE` if an interval is needed; of the estimators of [1]_, `DensityECE`
                                      with Silverman's bandwidth
How far off is each class?            `ResidualECE`, with ``bandwidth=0.1`` up to 300 rows; beyond, `ece_ac` with 10
                                      bins, or 15 from 1500 rows on, is about as good [2]_
Which number is usually reported?     `ECE` with 15 bins, or with the ``compat`` of another tool; biased upward with few
                                      rows
Which binned error is best?           `ece_c` with 10 bins: convex mapping is better than hard bins of either kind;
                                      equal-mass bins alone are worse than equal-width bins; ``"sqrt"`` grows too fast
                                      [1]_ [2]_
Is the error real, or due to chance?  intervals (``ci=``), `ECE` with ``norm="l2", debias=True``, or a test
Where is the model miscalibrated?     `ReliabilityCurve` with its band, `ReliabilityDiagram`
Without bins or bandwidths?           `CutoffError`, with an interval that needs no assumptions; `SmoothECE`; `ECCE`
Whole score vectors, few rows?        `SKCE`: unbiased, no cells; up to 10**5 rows
Whole score vectors, many rows?       `SKCE` with ``estimator="features"``; `MulticlassECE` with few classes
Calibrated, yes or no?                `SKCETest` (10**5 rows), `CMETest` (any), `ConsistencyTest` (any statistic); with
                                      millions of rows, `SKCETest` with ``delta`` tests whether the error is small
                                      enough
Does it affect decisions?             `ExcessCost`, with the costs of the actions; `NetBenefit` for treating or not
Which predictions need no review?     `calibdask.threshold`, with a guarantee; `RiskCoverage` of the order of scores
Which classes are possible?           `ConformalThreshold`: sets that contain the label, with a guarantee
Which of two models is better?        `calibdask.compare` of `BrierScore` or `LogLoss`; calibration errors alone favour
                                      a model that always predicts the base rates
====================================  ==================================================================================

Professions use different numbers for decisions:

====================  ==================================================================================================
Profession            Numbers and their limits
====================  ==================================================================================================
Medicine              `NetBenefit` at the thresholds that physicians act on, as a decision curve beside treating all and
                      none: the clinical utility of TRIPOD+AI. It says nothing about other thresholds, and its
                      intervals do not account for choosing one.
Weather, forecasting  `MurphyCurve`: one forecast is better for every user only if its curve is lower everywhere
Machine learning      `RiskCoverage` (AURC, E-AURC, AUGRC) of classifiers that may abstain: AURC depends on the
                      accuracy, and on few very confident errors; compare E-AURC or AUGRC. `ConformalThreshold`: its
                      coverage holds on average, not by class or slice; their coverage is reported as well.
Operations            `calibdask.threshold`: how much may be automated at a given risk; the guarantee does not
                      cover drift
Theory                `ATB`, which true probabilities minimise for any number of rows; for calibrated scores it is not 0
====================  ==================================================================================================

Properties to keep in mind:

* Binned errors with hard bins are biased upward for calibrated models, increasingly so with more bins; with few bins,
  errors of opposite sign within a bin cancel. Intervals start at 0 if calibrated models have errors as large by chance.
* `DensityECE` and `SmoothECE` smooth: if the true curve is steep they are too small, by more than their intervals
  indicate. However many rows there are, `SmoothECE` approaches a smoothed error, which is smaller than the mean gap.
* `MCE` is a single gap, often that of a bin with few rows.
* Debiased errors and the unbiased `SKCE` are correct on average; for calibrated models, single values are at or
  below 0 as often as above.

``experiments/ece_benchmark``, ``experiments/calibration`` and ``experiments/skce_tests`` in the repository contain the
measurements behind these statements.

References
----------
.. [1] Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, section 5: errors of fifteen estimators on 540
   score distributions, 30 to 500 rows.
.. [2] ``experiments/ece_benchmark``: the same experiment with 50 estimators, 30 to 5000 rows, and means of the mixtures
   as in the authors' code and as in the text of the paper.
"""
