"""Inputs of the command of an analysis: scored rows or a summary, the scores of several models, or only a summary."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import click

from calibdask.cli.command_line import command_line
from calibdask.cli.data_names import named_data, source_of
from calibdask.cli.gates import limits_file, limits_option
from calibdask.cli.model_data import check_one_model, model_requests, same_rows, score_models, with_maps
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.row_options import (
    by_option,
    cluster_check_option,
    data_argument,
    features_option,
    groups_option,
    key_option,
    map_option,
    place_options,
    population_options,
    refused_groups_option,
    refused_share_options,
    row_options,
    soft_label_options,
    weight_option,
)
from calibdask.cli.rows_request import RowsRequest, feature_names, rows_of, stem_of
from calibdask.safe_text import visible

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.analyses.analysis import Analysis
    from calibdask.analyses.gating.check import Check
    from calibdask.analyses.gating.limits import Limits
    from calibdask.data.data import Data
    from calibdask.estimators.signatures import AnalysisSignature
    from calibdask.storage.row_table import RowTable
    from calibdask.storage.summary import Summary


class AnalysisInput(Protocol):
    """The data of one analysis, as options name them."""

    @property
    def files(self) -> Iterable[str]:
        """The files that are read, which no output may replace."""

    @property
    def source(self) -> str:
        """The name of the data in a report."""

    def result(self, analysis: "Analysis") -> "xr.Dataset":
        """Read the data and compute."""


@dataclass(frozen=True)
class RowsInput:
    """Scored rows, or a summary."""

    request: RowsRequest
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: str, features: tuple[str, ...] = (), **options: Any) -> "RowsInput":
        """Input from the options of a command."""
        return cls(RowsRequest(data=data, **{"weight": None, "by": (), **options}), features)

    @property
    def files(self) -> tuple[str, ...]:
        """DATA."""
        return (self.request.data,)

    @property
    def source(self) -> str:
        """The name of DATA."""
        return source_of(self.request)

    def result(self, analysis: "Analysis") -> "xr.Dataset":
        """The result for the rows, or for the summary."""
        from calibdask.progress import shown_progress
        from calibdask.storage.summary import Summary

        check_one_model(analysis.name, self.request)
        request, store = self.request, self.request.opened()
        if isinstance(store, Summary):
            if self.features:
                raise click.UsageError(
                    f"--features has no effect on {request.data}: it is a stored summary, whose columns are already "
                    "cut."
                )
            with store.dataset, shown_warnings():
                return self._computed(analysis, self._summary_data(analysis, store))
        rows = rows_of(store)
        with shown_warnings():
            if analysis.takes_features:
                request = replace(request, feature_columns=feature_names(request, rows, self.features))
            table = request.table(rows)
            with request.connected(table), shown_progress(f"computing: {analysis.name}"):
                result = self._computed(analysis, _rows_data(analysis, request, table))
                request.note_excluded(result.attrs)
                request.warn_of_rows_of_the_fit(rows, result.attrs.get("rows"))
                return result.assign_attrs(request.map_attributes)

    def _computed(self, analysis: "Analysis", data: "Data") -> "xr.Dataset":
        return analysis.run(data)

    def _summary_data(self, analysis: "Analysis", summary: "Summary") -> "Data":
        from calibdask.cli.rows_request import pooled, refuse_row_options
        from calibdask.data.data import Data

        # A summary has its clusters inside.
        refuse_row_options(replace(self.request, groups=None) if summary.source.layout.clustered else self.request)
        if analysis.takes_features:
            # Segments take the place of slices, which are added up.
            return Data(summary=summary)
        return Data.of(pooled(summary, self.request.by), by=self.request.by)


def _rows_data(analysis: "Analysis", request: RowsRequest, table: "RowTable") -> "Data":
    if not analysis.takes_features:
        return request.data_of(table)
    from calibdask.data.named_features import data_with_features
    from calibdask.data.options import InputOptions

    return data_with_features(table, None, None, None, InputOptions(**request.reading))


@dataclass(frozen=True)
class LimitsInput(RowsInput):
    """Scored rows, or a summary, with limits of a file, the scores of a baseline, and a receipt of the rows."""

    limits_path: str | None = None
    baseline: str | None = None
    receipt: str | None = None

    @classmethod
    def of(cls, data: str, features: tuple[str, ...] = (), **options: Any) -> "LimitsInput":
        """Input from the options of a command."""
        own = {name: options.pop(name) for name in ("limits_path", "baseline", "receipt")}
        return cls(RowsRequest(data=data, **options), features, **own)

    @property
    def files(self) -> tuple[str, ...]:
        """DATA, the baseline, the limits and the map."""
        return tuple(filter(None, (self.request.data, self.baseline, self.limits_path, self.request.map_path)))

    def result(self, analysis: "Analysis") -> "xr.Dataset":
        """The result for the limits of the options and of the file, which knows the name of the data."""
        from calibdask.analyses.gating.check import Check

        assert isinstance(analysis, Check)
        declared = limits_file(self.limits_path)
        check, request = analysis.with_file(declared), _declared_columns(self.request, declared)
        self._refuse(check, request)
        result = replace(self, request=request)._checked(check)
        return result.assign_attrs(source=stem_of(request.data), command=command_line())

    def _refuse(self, check: "Check", request: RowsRequest) -> None:
        """Refuse options that have no effect with, or without, others."""
        if not (check.limits or check.slice_limits or check.not_worse):
            raise click.UsageError(
                "check expects limits: --limit ece=0.03, or a file of them by --limits; a profile has none. calibdask "
                "report --profile shows its numbers without."
            )
        if check.slice_limits and not request.by:
            raise click.UsageError("--slice-limit has no effect without --by: there are no slices.")
        if bool(check.not_worse) != (self.baseline is not None):
            raise click.UsageError("--not-worse requires --baseline, and --baseline requires --not-worse.")
        if self.receipt is not None and check.not_worse:
            raise click.UsageError("--receipt covers a single model; omit --not-worse.")
        if self.receipt is not None and request.map_path is not None:
            raise click.UsageError("--receipt covers the scores of a file; it has no effect with --map.")
        if self.baseline is not None:
            return
        if request.key is not None:
            raise click.UsageError("--key has no effect without --baseline: it joins the rows of two files.")
        if score_models(request.score) is not None:
            raise click.UsageError(
                "--score NAME=COLUMN names models to compare by --baseline; without it, check expects the columns of "
                "one model: --score COLUMN."
            )

    def _checked(self, check: "Check") -> "xr.Dataset":
        if self.baseline is None:
            return super().result(check)
        requests = _with_baseline(self.request, self.baseline)
        return ModelsInput(requests).result(check).assign_attrs(self.request.map_attributes)

    def _computed(self, analysis: "Analysis", data: "Data") -> "xr.Dataset":
        if self.receipt is None:
            return analysis.run(data)
        from calibdask.analyses.gating.check import Check
        from calibdask.analyses.receipts.receipt import receipt_and_gate

        if not data.has_rows:
            raise click.UsageError("--baseline and --receipt need rows; a summary has none.")
        assert isinstance(analysis, Check)
        document, gate = receipt_and_gate(data, analysis)
        assert gate is not None
        return gate.to_dataset().assign_attrs(analysis=analysis.to_text(), receipt=json.dumps(document))


def _declared_columns(request: RowsRequest, declared: "Limits") -> RowsRequest:
    """The request with the slices and clusters of a limits file."""
    by = tuple(dict.fromkeys((*declared.by, *request.by)))
    return replace(request, by=by, groups=request.groups or declared.groups or None)


def _with_baseline(request: RowsRequest, baseline: str) -> dict[str, RowsRequest]:
    """The requests for the model and for its baseline, which is a file or another column of scores."""
    models = score_models(request.score)
    raw = replace(request, map_path=None, as_probabilities=request.map_path is not None)
    if models is None:
        return {"model": request, "baseline": replace(raw, data=baseline)}
    if baseline not in models:
        names = ", ".join(map(visible, models))
        raise click.UsageError(f"--baseline expects one of the models of --score, {names}, got {visible(baseline)}.")
    judged = [column for name, column in models.items() if name != baseline]
    if len(judged) != 1:
        raise click.UsageError(f"check judges one model; --score names {', '.join(models)}.")
    return {"model": replace(request, score=judged[0]), "baseline": replace(raw, score=models[baseline])}


@dataclass(frozen=True)
class ModelsInput:
    """Scores of several models for one set of rows; slices and weights come from the first model's file."""

    requests: dict[str, RowsRequest]

    @classmethod
    def of(cls, data: tuple[str, ...], **options: Any) -> "ModelsInput":
        """Input from the options of a command."""
        maps = options.pop("maps")
        return cls(with_maps(model_requests(data, options), maps))

    @property
    def files(self) -> list[str]:
        """All DATA, and maps."""
        paths = ((request.data, request.map_path) for request in self.requests.values())
        return [path for of_model in paths for path in of_model if path is not None]

    @property
    def source(self) -> str:
        """The names of all DATA."""
        return ", ".join(dict.fromkeys(map(source_of, self.requests.values())))

    def result(self, analysis: "Analysis") -> "xr.Dataset":
        """The result for the rows that all models share."""
        from calibdask.cluster import connected
        from calibdask.progress import shown_progress

        if len(self.requests) < 2:
            raise click.UsageError(
                f"{analysis.name} expects two models or more, got one: several DATA, --score NAME=COLUMN for each "
                "column of one, or --map MAP for its recalibrated scores."
            )
        mend = f"{analysis.name} expects scored rows."
        stored = {name: rows_of(request.opened(), mend) for name, request in self.requests.items()}
        first = next(iter(self.requests.values()))
        with connected(first.cluster), shown_progress(f"computing: {analysis.name}"), shown_warnings():
            tables = same_rows(analysis.name, self.requests, stored)
            rows = first.data_of(next(iter(tables.values())))
            models = {name: table.scores for name, table in tables.items()}
            result = analysis.run(rows.with_scores(models))
            first.note_excluded(result.attrs)
            for name, request in self.requests.items():
                request.warn_of_rows_of_the_fit(stored[name], result.attrs.get("rows"))
            return result


@dataclass(frozen=True)
class SummaryInput:
    """A stored summary, with slices that are looked at each for itself."""

    source: str
    path: str
    by: tuple[str, ...]

    @classmethod
    def of(cls, data: str, by: tuple[str, ...]) -> "SummaryInput":
        """Input from the options of a command."""
        ((name, path),) = named_data([data]).items()
        return cls(name, path, by)

    @property
    def files(self) -> tuple[str]:
        """SUMMARY."""
        return (self.path,)

    def result(self, analysis: "Analysis") -> "xr.Dataset":
        """The result, which knows the name of the summary."""
        from calibdask.data.data import Data
        from calibdask.storage.open_store import open_store
        from calibdask.storage.summary import Summary

        store = open_store(self.path)
        if not isinstance(store, Summary):
            raise click.UsageError(
                f"{self.path} is {store.kind}; {analysis.name} expects a summary that calibdask summarize wrote."
            )
        with store.dataset, shown_warnings():
            return analysis.run(Data(by=self.by, summary=store)).assign_attrs(summary=self.source)


_BASELINE = click.option(
    "--baseline", metavar="DATA_B", help="Scores of another model for the same rows, in the same order."
)
_RECEIPT = click.option(
    "--receipt",
    metavar="FILE",
    help="Write a receipt, .json, with the fingerprint of the rows, numbers and decisions; see verify.",
)
_MAPS = click.option(
    "--map",
    "maps",
    metavar="[NAME=]MAP",
    multiple=True,
    help="Add the scores of A recalibrated by this map of calibdask calibrate as a model; repeatable.",
)


def input_options(signature: "AnalysisSignature") -> list[Callable[[Any], Any]]:
    """The argument of data and the options that say how they are read, those that the analysis has a use for."""
    if signature.inputs == "models":
        return [data_argument("A [B...]"), _MAPS, key_option, row_options, soft_label_options]
    if signature.inputs == "limits":
        rows = [key_option, population_options, row_options, soft_label_options, cluster_check_option]
        return [data_argument(), limits_option, map_option, _BASELINE, *rows, _RECEIPT]
    if signature.inputs == "summary":
        return [click.argument("data", metavar="[NAME=]SUMMARY"), by_option, refused_share_options]
    chosen: list[tuple[Any, bool]] = [
        (features_option(), signature.takes_features),
        (by_option, signature.slices),
        (weight_option, signature.weights),
        (population_options, signature.population),
        (groups_option if signature.clusters else refused_groups_option, True),
    ]
    used = [option for option, is_used in chosen if is_used]
    return [data_argument(), *used, refused_share_options, place_options]


# By what an analysis declares as its ``inputs``.
INPUTS: dict[str, Callable[..., AnalysisInput]] = {
    "rows": RowsInput.of,
    "limits": LimitsInput.of,
    "models": ModelsInput.of,
    "summary": SummaryInput.of,
}
