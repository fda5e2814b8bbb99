"""The OpenAPI document is valid, tells of every route, and is true: generated requests find nothing else."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from openapi_spec_validator import validate

from hermes.entry.http.api import load_resources
from hermes.entry.http.api.openapi import document
from hermes.entry.http.site.endpoint import ROUTES, shown_path
from hermes.testing.api import ApiWorld

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "use_after_free",
    "ignored_auth",
)
LEAST_CASES = 2_000


async def test_the_document_is_open_and_valid(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.get("/openapi.json", headers={"Authorization": ""})
        assert heard.status == 200
        assert heard.json["openapi"] == "3.1.0"
        validate(heard.json)


def test_every_route_is_told_with_its_types() -> None:
    load_resources()
    told = document("1")
    for one in ROUTES:
        operation = told["paths"][shown_path(one)][one.method.lower()]
        assert operation["summary"].endswith((".", "?")), one.path
        assert operation["responses"][str(one.status)]["content"] or one.status == 204, one.path
        assert ("requestBody" in operation) == (one.body is not None or one.signed)
    names = [
        operation["operationId"]
        for path in told["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


def test_an_answer_promises_every_field_it_always_has() -> None:
    load_resources()
    completion = document("1")["components"]["schemas"]["ChatCompletion"]
    assert "object" in completion["required"]
    assert "hermes" not in completion["required"]


async def test_generated_requests_find_the_document_true(tmp_path: Path, full: bool) -> None:
    if full:
        assert await _generated(tmp_path, "examples,coverage,fuzzing,stateful", examples=40) >= LEAST_CASES
    else:
        assert await _generated(tmp_path, "examples,fuzzing", examples=1) > len(ROUTES)


async def _generated(tmp_path: Path, phases: str, *, examples: int) -> int:
    """Let schemathesis ask a gateway whatever the document allows and forbids; how many requests it made."""
    async with ApiWorld(home=tmp_path / "home") as api:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{api.address}/openapi.json"),
            *("--header", f"Authorization: Bearer {api.key}", "--checks", ",".join(CHECKS)),
            *("--seed", "20", "--max-examples", str(examples), "--generation-database", "none"),
            *("--no-color", "--continue-on-failure", "--phases", phases),
        ]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    counted = re.search(r"(\d+) generated", output)
    assert counted is not None, output
    return int(counted[1])
