"""Profiles at size: every profile, and every metric of one, is measured."""

from calibdask.analyses.gating.profiles import PROFILES
from experiments.scaling import profiles


def test_a_measurement() -> None:
    tables = profiles.tables_of(500, 1, {"uniform": (1, 1)})
    assert [row["profile"] for row in tables["profiles"].rows] == list(PROFILES)
    assert all(row["seconds"] > 0 for row in tables["profiles"].rows)
    assert {row["metric"] for row in tables["metrics"].rows} == {
        text for one in PROFILES.values() for text in one.names
    }
