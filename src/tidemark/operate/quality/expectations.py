"""The expectation of every rule: the number of rows that break it must be 0.

The store counts these rows. Great Expectations gets one row with the number of each rule.
"""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation, render_suite_parameter_string
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render.components import (
    LegacyDiagnosticRendererType,
    LegacyRendererType,
    RenderedStringTemplateContent,
)
from great_expectations.render.renderer.renderer import renderer


class UnexpectedCount(TableMetricProvider):
    """The number of rows that break `rule`: the value in its column, or text that says why it is unknown."""

    metric_name = "tidemark.unexpected_count"
    value_keys = ("rule",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(  # type: ignore[no-untyped-def]
        cls,  # noqa: N805  Great Expectations passes it by this name
        execution_engine,
        metric_domain_kwargs,
        metric_value_kwargs,
        metrics,
        runtime_configuration,
    ):
        facts, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)
        count = facts[metric_value_kwargs["rule"]].iloc[0]
        if isinstance(count, str):
            raise ValueError(count)
        return int(count)


class ExpectNoneUnexpected(BatchExpectation):
    """Expects that no row breaks `rule`; `about` is its description, `counted` the number of such rows in SQL."""

    rule: str
    counted: str
    about: str

    metric_dependencies: ClassVar[tuple[str, ...]] = ("tidemark.unexpected_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("rule",)
    args_keys: ClassVar[tuple[str, ...]] = ("rule", "counted", "about")

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        count = metrics["tidemark.unexpected_count"]
        return {"success": count == 0, "result": {"observed_value": count, "unexpected_count": count}}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    @render_suite_parameter_string
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None, **_: Any
    ) -> list[Any]:
        params = {name: configuration.kwargs[name] for name in ("about", "counted")}
        template = {"template": "$about Zero: $counted", "params": params}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _diagnostic_unexpected_statement_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[Any]:
        # The observed value is the number already; the default would also need the number of rows.
        return []
