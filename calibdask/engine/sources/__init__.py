"""Sources answer requests for statistics; estimators cannot distinguish them."""
