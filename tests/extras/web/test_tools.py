"""Commands as tools of an assistant, called by the client of the protocol's package."""

from __future__ import annotations

from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client

from inference_econ.extras.web import WorkerLimits, questions
from inference_econ.extras.web import tools as explorer_tools

SUBJECT = {"model": "llama_3_8b", "hardware": "h100_sxm"}


async def _asked(*calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[tuple[bool, str]]]:
    server = explorer_tools(WorkerLimits(processes=1, seconds=120))
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        replies = [await client.call_tool(name, arguments) for name, arguments in calls]
    return tools, [(reply.is_error, _text(reply.content)) for reply in replies]


def _text(content: list[Any]) -> str:
    (said,) = content
    return str(said.text)


@pytest.fixture(scope="module")
def outcome() -> tuple[list[Any], list[tuple[bool, str]]]:
    return anyio.run(
        lambda: _asked(
            ("explain", {**SUBJECT, "tp": 2, "batch": 8}),
            ("launch", {**SUBJECT, "to": "vllm"}),
            ("explain", {**SUBJECT, "tp": 0}),
            ("explain", {**SUBJECT, "model": "/etc/passwd"}),
            ("explain", {**SUBJECT, "colour": "red"}),
            ("write", {}),
            ("load", {**SUBJECT, "tp": 1, "dp": 1, "pp": 1, "traffic": "rag", "agents": 20}),
        )
    )


def test_every_question_is_a_tool_with_its_options(outcome: Any) -> None:
    tools = {tool.name: tool for tool in outcome[0]}
    assert set(tools) == set(questions())
    for name, question in questions().items():
        schema = tools[name].input_schema
        jsonschema.Draft202012Validator.check_schema(schema)
        assert list(schema["properties"]) == [option.field for option in question.asked]
    assert tools["frontier"].input_schema["required"] == ["model", "hardware"]


def test_agents_are_asked_about_with_their_traffic(outcome: Any) -> None:
    refused, text = outcome[1][-1]
    assert not refused, text
    assert text.startswith("`inference-econ load llama_3_8b h100_sxm --traffic rag --agents 20 --tp 1")
    assert "$/task" in text


def test_answers_are_tables_below_the_command_that_asks_the_same(outcome: Any) -> None:
    (refused, text), (_, script), *_ = outcome[1]
    assert not refused
    assert text.startswith("`inference-econ explain llama_3_8b h100_sxm --tp 2 --batch 8`")
    assert "| --- |" in text
    assert "vllm serve" in script


@pytest.mark.parametrize(
    ("index", "message"),
    [(2, "greater than or equal to 1"), (3, "unknown model '/etc/passwd'"), (4, "no option of this"), (5, "no tool")],
)
def test_what_cannot_be_answered_is_said(outcome: Any, index: int, message: str) -> None:
    refused, text = outcome[1][index]
    assert refused
    assert message in text
