"""Order statistics: ranks, quantiles and medians, exact for data of any size."""
