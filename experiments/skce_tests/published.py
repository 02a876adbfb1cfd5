"""Numbers behind the published Figures 1 and 2 and those of the supplement: the authors' data of these figures.

Their package at first numbered the cells of the ECE by the product of the bins of all classes (`ece_product`,
`C_product`); release 0.2.0 corrects it, and reran what rests on it (`ece`, `C`). All other numbers are those of before.
There are test errors of 10 classes, and of C for 2 classes, but none of 100 and 1000.
"""

# Data sets of each model.
SETS = 10_000
_MODELS = ("M1", "M2", "M3")

_MEANS = {
    (2, "ece"): (0.032428, 0.255116, 0.451159),
    (2, "ece_product"): (0.022892, 0.250730, 0.056059),
    (2, "skce_b"): (0.00033250, 0.102033, 0.156614),
    (2, "skce_uq"): (-0.0000010384, 0.100435, 0.153557),
    (2, "skce_ul"): (0.000065440, 0.100537, 0.153668),
    (10, "ece"): (0.439519, 0.663308, 0.891779),
    (10, "ece_product"): (0.228760, 0.513384, 0.390821),
    (10, "skce_b"): (0.0017911, 0.099766, 0.020460),
    (10, "skce_uq"): (-0.0000086243, 0.096551, 0.015122),
    (10, "skce_ul"): (0.00016041, 0.096556, 0.015012),
    (100, "ece"): (0.899033, 0.944443, 0.989573),
    (100, "ece_product"): (0.635580, 0.788004, 0.699899),
    (100, "skce_b"): (0.0036014, 0.095916, 0.0045038),
    (100, "skce_uq"): (0.0000017129, 0.092325, 0.00018426),
    (100, "skce_ul"): (0.000018240, 0.092420, 0.00023370),
    (1000, "ece"): (0.771157, 0.877474, 0.778914),
    (1000, "ece_product"): (0.771157, 0.877474, 0.778919),
    (1000, "skce_b"): (0.0039572, 0.095821, 0.0040385),
    (1000, "skce_uq"): (0.00000070971, 0.092194, 0.0000028982),
    (1000, "skce_ul"): (0.0000087878, 0.092033, -0.00000088732),
}
# Mean of the estimates by classes, estimator and model.
MEANS = {
    (classes, name, model): value
    for (classes, name), values in _MEANS.items()
    for model, value in zip(_MODELS, values, strict=True)
}

# Empirical test error by classes, test and model.
LEVEL = 0.05
ERRORS = {
    (2, "C", "M1"): 0.0533,
    (2, "C", "M2"): 0.0,
    (10, "C", "M1"): 1.0,
    (10, "C", "M2"): 0.0,
    (10, "C", "M3"): 0.0,
    (10, "C_product", "M1"): 0.2447,
    (10, "C_product", "M2"): 0.0,
    (10, "C_product", "M3"): 0.0,
    (10, "D_b", "M1"): 0.0,
    (10, "D_b", "M2"): 0.3706,
    (10, "D_b", "M3"): 1.0,
    (10, "A_uq", "M1"): 0.0365,
    (10, "A_uq", "M2"): 0.0,
    (10, "A_uq", "M3"): 0.0,
    (10, "A_l", "M1"): 0.0455,
    (10, "A_l", "M2"): 0.0,
    (10, "A_l", "M3"): 0.8146,
}

# Share of the data sets whose estimate no replicate reaches: there the authors' p-value is 0.
UNREACHED = {(2, "C", "M1"): 0.0008, (10, "C", "M1"): 0.9897, (10, "C_product", "M1"): 0.0091}
