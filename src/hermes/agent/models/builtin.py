"""The providers that Hermes brings along, registered like a plugin's in the group `hermes.providers`. What
one needs is loaded when it is made, not before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hermes.agent.models.choose import is_local
from hermes.agent.models.formats import load_format
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import CHAT_COMPLETIONS, LOCAL
from hermes.domain.ports.agent import Provider
from hermes.domain.settings.providers import EndpointOptions
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.word import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.agent.models.client import Deadlines
    from hermes.agent.models.endpoint import HttpProvider

OPENAI_COMPATIBLE = "openai_compatible"
DEMO = "demo"


def make_openai_compatible(
    settings: ModelSettings, facts: Callable[[str], ModelFacts] | None = None
) -> HttpProvider:
    """A model behind the address of the settings, of which `facts` knows more than the package. One on this
    machine may take its time, and a call that it writes as text instead of making it counts."""
    from hermes.agent.models.catalogue import published_facts
    from hermes.agent.models.client import HERE, THINKING, Deadlines, ModelClient
    from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
    from hermes.agent.models.login.services import account_headers

    here, options = is_local(settings.base_url), settings.options
    endpoint = ModelEndpoint(
        base_url=settings.base_url,
        key=settings.api_key,
        max_tokens=settings.max_tokens,
        deadlines=_deadlines(options, HERE if here else Deadlines()),
        thinking_deadlines=_deadlines(options, HERE if here else THINKING),
        written_calls=here,
        headers=account_headers(settings.base_url, settings.api_key.reveal())
        | {name: text.reveal() for name, text in options.headers},
        extra_body=json.loads(options.extra_body or "{}"),
        token_limit=options.token_limit,
        reasoning=options.reasoning,
        caching=options.caching,
        defers=options.defers,
        facts=facts or published_facts,
    )
    wire = load_format(settings.api_mode or CHAT_COMPLETIONS)
    return HttpProvider(endpoint, wire, ModelClient(options))


def _deadlines(options: EndpointOptions, made: Deadlines) -> Deadlines:
    if options.request_timeout is not None:
        total = options.request_timeout
        made = replace(made, total=total, first_byte=min(made.first_byte, total))
    if options.stale_timeout is not None:
        made = replace(made, idle=options.stale_timeout, first_byte=options.stale_timeout)
    return made


def make_demo(settings: ModelSettings) -> Provider:
    from hermes.agent.models.demo import DemoProvider

    return DemoProvider()


def make_local(settings: ModelSettings) -> Provider:
    from hermes.agent.models.local import LocalModelProvider

    return LocalModelProvider(settings)


BUILT_IN = {OPENAI_COMPATIBLE: make_openai_compatible, DEMO: make_demo, LOCAL: make_local}
