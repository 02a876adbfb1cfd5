"""Limits that were declared beforehand, held against what data show: `check`, for pull requests and approvals."""
