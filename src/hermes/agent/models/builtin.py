"""The providers that Hermes brings along, registered like a plugin's in the group `hermes.providers`. What
one needs is loaded when it is made, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.agent.models.choose import is_local
from hermes.agent.models.formats import CHAT_COMPLETIONS, load_format
from hermes.domain.ports.agent import Provider
from hermes.domain.settings.settings import ModelSettings

if TYPE_CHECKING:
    from hermes.agent.models.endpoint import HttpProvider

OPENAI_COMPATIBLE = "openai_compatible"
DEMO = "demo"


def make_openai_compatible(settings: ModelSettings) -> HttpProvider:
    """A model behind the address of the settings. One on this machine may take its time, and a call that it
    writes as text instead of making it counts."""
    from hermes.agent.models.client import Deadlines
    from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint

    here = is_local(settings.base_url)
    patient = Deadlines(first_byte=600.0, idle=300.0, total=1800.0)
    endpoint = ModelEndpoint(
        base_url=settings.base_url,
        key=settings.api_key,
        max_tokens=settings.max_tokens,
        deadlines=patient if here else Deadlines(),
        written_calls=here,
    )
    return HttpProvider(endpoint, load_format(settings.api_mode or CHAT_COMPLETIONS))


def make_demo(settings: ModelSettings) -> Provider:
    from hermes.agent.models.demo import DemoProvider

    return DemoProvider()


BUILT_IN = {OPENAI_COMPATIBLE: make_openai_compatible, DEMO: make_demo}
