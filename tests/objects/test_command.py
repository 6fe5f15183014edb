"""Arguments of `tidemark import` that do not go together."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tidemark.cli.importing import import_command


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["s3://logs/", "access.log"], "Name files and objects in separate commands."),
        (["access.log", "--where", "*.gz"], "are for URLs of objects"),
        (["-", "--queue", "https://sqs.eu-west-1.amazonaws.com/1/logs"], "are for URLs of objects"),
        (["s3://logs/", "--complete"], "objects are complete"),
    ],
)
def test_arguments_of_another_kind_of_source(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(import_command, arguments)
    assert result.exit_code == 2
    assert text in result.output
