"""Identifiers: who is meant, as distinct types, and how new ones are made."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import NewType

AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
QuestionId = NewType("QuestionId", str)
CallId = NewType("CallId", str)
DeliveryId = NewType("DeliveryId", str)
JobId = NewType("JobId", str)

MAIN_AGENT = AgentId("main")
EVERY_AGENT = AgentId("*")
"""The scope of a store handle for what is asked over all agents at once; no agent can have this id."""
_CLIENT_CALL = re.compile(r"call_(q_[0-9a-f]{12})")


def new_session_id(now: datetime) -> SessionId:
    return SessionId(f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}")


def new_turn_id() -> TurnId:
    return TurnId("turn_" + secrets.token_hex(10))


def new_question_id() -> QuestionId:
    return QuestionId("q_" + secrets.token_hex(6))


def new_call_id() -> CallId:
    return CallId("call_" + secrets.token_hex(10))


def client_call_id(question: QuestionId) -> str:
    """The id by which an API client knows a call of its own tool. Models use their ids again; questions do
    not, so a result that comes back names one call of one turn."""
    return f"call_{question}"


def question_of_call(text: str) -> QuestionId | None:
    """The question behind such an id, None if it is another kind of id."""
    found = _CLIENT_CALL.fullmatch(text)
    return QuestionId(found[1]) if found else None


def new_job_id() -> JobId:
    return JobId(secrets.token_hex(6))
