"""Numbers behind the published Figures 1 and 2: those in the authors' data of the figures, before their release 0.2.0.

Their package then numbered the cells of the ECE by the product of the bins of all classes (`ece_product`, `C_product`);
release 0.2.0 corrects it.
"""

__all__ = ["ERRORS", "LEVEL", "MEANS", "SETS"]

# Data sets of each model.
SETS = 10_000

# Mean of the estimates by estimator and model.
MEANS = {
    ("ece_product", "M1"): 0.228760,
    ("ece_product", "M2"): 0.513384,
    ("ece_product", "M3"): 0.390821,
    ("skce_b", "M1"): 0.001791,
    ("skce_b", "M2"): 0.099766,
    ("skce_b", "M3"): 0.020460,
    ("skce_uq", "M1"): -0.0000086,
    ("skce_uq", "M2"): 0.096551,
    ("skce_uq", "M3"): 0.015122,
    ("skce_ul", "M1"): 0.000160,
    ("skce_ul", "M2"): 0.096556,
    ("skce_ul", "M3"): 0.015012,
}

# Empirical test error by test and model.
LEVEL = 0.05
ERRORS = {
    ("C_product", "M1"): 0.2447,
    ("C_product", "M2"): 0.0,
    ("C_product", "M3"): 0.0,
    ("D_b", "M1"): 0.0,
    ("D_b", "M2"): 0.3706,
    ("D_b", "M3"): 1.0,
    ("A_uq", "M1"): 0.0365,
    ("A_uq", "M2"): 0.0,
    ("A_uq", "M3"): 0.0,
    ("A_l", "M1"): 0.0455,
    ("A_l", "M2"): 0.0,
    ("A_l", "M3"): 0.8146,
}
