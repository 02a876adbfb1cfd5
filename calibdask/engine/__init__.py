"""Where data meets estimators: sources answer requests, the plan drives estimators in step."""
