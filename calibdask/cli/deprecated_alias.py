"""``calibdask test``, the old name of ``calibdask evaluate --panel tests``; it goes with the next release."""

from typing import Any

import click

from calibdask.cli.calibration_tests import TESTS, TESTS_HELP
from calibdask.cli.evaluate import evaluate
from calibdask.cli.metric_options import MetricCommand


def _run(**given: Any) -> Any:
    click.echo(f"calibdask: test is deprecated; use calibdask evaluate --panel {TESTS}", err=True)
    assert evaluate.callback is not None
    return evaluate.callback(panel=TESTS, **given)


alias = MetricCommand(
    "test",
    params=[parameter for parameter in evaluate.params if parameter.name not in ("panel", "help_all")],
    callback=_run,
    help=f"Deprecated: this is calibdask evaluate --panel {TESTS}.",
    epilog=TESTS_HELP,
)
