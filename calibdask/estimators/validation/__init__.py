"""What validators of risk models compute: regression, ratios, groups, grades."""
