"""The expectation of every rule: a SQL aggregate that counts violations must be 0.

Great Expectations' own `UnexpectedRowsExpectation` takes two Spark jobs per expectation.
Aggregates are bundled: all expectations of a suite take one job, in a tenth of the time.
"""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation, render_suite_parameter_string
from great_expectations.expectations.metrics.metric_provider import metric_partial
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from pyspark.sql import functions as F


class UnexpectedCount(TableMetricProvider):
    """Value of a Spark SQL aggregate, `counted`, over the batch."""

    metric_name = "tidemark.unexpected_count"
    value_keys = ("counted",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(  # type: ignore[no-untyped-def]
        cls,  # noqa: N805  Great Expectations passes it by this name
        execution_engine,
        metric_domain_kwargs,
        metric_value_kwargs,
        metrics,
        runtime_configuration,
    ):
        return F.expr(metric_value_kwargs["counted"]), metric_domain_kwargs, {}


class ExpectNoneUnexpected(BatchExpectation):
    """Expects the SQL aggregate `counted` to be 0; `about` is the description."""

    counted: str
    about: str

    metric_dependencies: ClassVar[tuple[str, ...]] = ("tidemark.unexpected_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("counted",)
    args_keys: ClassVar[tuple[str, ...]] = ("counted", "about")

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        count = int(metrics["tidemark.unexpected_count"] or 0)
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
