"""Numbers, curves and tests as frozen descriptions; each asks for statistics and computes.

Which one when
--------------
Calibration can be asked of the predicted class (``setting="confidence"``), of one class or of each (``"classwise"``),
or of the whole vector of scores. The weaker question needs fewer rows and misses more.

====================================  ==================================================================================
the question                          the answer
====================================  ==================================================================================
how good are the scores, all in all?  `BrierScore` and `LogLoss`: proper scores, without choices and without bias
how much of that is calibration?      `CORP`: no choices either; `BrierDecomposition` for a summary or by bins
how far off are confidences?          `SmoothECE`: the most exact of 50 at nearly all sizes [2]_; `ResidualECE` for an
                                      interval; of the estimators of [1]_ `DensityECE` with Silverman's bandwidth
how far off is each class?            `ResidualECE`, up to 300 rows with ``bandwidth=0.1``; then `ece_ac` with 10 bins,
                                      from 1500 rows on with 15, is about as good [2]_
a number that others report           `ECE` with 15 bins, or with the ``compat`` of their tool; with few rows too large
bins at all costs                     mapped convexly, `ece_c` with 10 bins: better than hard bins of either kind; equal
                                      mass alone is worse than equal width; ``"sqrt"`` grows too fast [1]_ [2]_
is the error there, or chance?        intervals (``ci=``), `ECE` with ``norm="l2", debias=True``, or a test
where is it?                          `ReliabilityCurve` with its band, `ReliabilityDiagram`
without bins or bandwidths            `SmoothECE`, which finds its own; `ECCE`, with a p-value
whole vectors of scores, few rows     `SKCE`: unbiased, no cells; up to 10**5 rows
whole vectors of scores, many rows    `SKCE` with ``estimator="features"``; `MulticlassECE` with few classes
calibrated, yes or no?                `SKCETest` (10**5 rows), `CMETest` (any), `ConsistencyTest` (any statistic); with
                                      millions of rows ask `SKCETest` with ``delta`` whether the error is small enough
does it matter for what is done?      `ExcessCost`, with the costs of actions
which of two models is better?        `calibdask.compare` of `BrierScore` or `LogLoss`; calibration errors alone are
                                      best for a model that always says the overall frequency
====================================  ==================================================================================

What to know of each kind:

* Binned errors with hard bins are too large for calibrated models by what chance adds, the more so the more bins; with
  few bins, errors of opposite sign within a bin cancel. Intervals begin at 0 where calibrated models have as large an
  error by chance.
* `DensityECE` and `SmoothECE` smooth: where the true curve is steep they are too small, more than their intervals say.
* `MCE` is one gap, often that of a bin with few rows.
* Debiased errors and the unbiased `SKCE` are right in the mean; single ones are 0 or below 0 as often as above.

Rates behind these sentences are in ``experiments/ece_benchmark``, ``experiments/calibration`` and
``experiments/skce_tests`` of the repository.

References
----------
.. [1] Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, section 5: errors of fifteen estimators on 540
   distributions of scores, 30 to 500 rows.
.. [2] ``experiments/ece_benchmark``: the same experiment with 50 estimators, 30 to 5000 rows, means of the mixtures as
   in the authors' code and as in the paper's text.
"""
