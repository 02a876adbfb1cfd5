"""What users ask for: one analysis per file or folder, from data to a result and its document."""
