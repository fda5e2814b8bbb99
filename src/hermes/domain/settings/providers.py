"""Settings of providers: endpoints of one's own, changes to those that Hermes knows, and whom OpenRouter may
use. `EndpointOptions` is what follows from them for one endpoint."""

from __future__ import annotations

from msgspec import Struct

from hermes.domain.models.providers import CacheStyle, ReasoningField
from hermes.domain.settings.declaring import NONE_LISTED, Names, Secret, Section, setting


class EndpointOptions(Struct, frozen=True, kw_only=True):
    """How an endpoint is spoken to, beyond its address and key. `extra_body` is a JSON object as text;
    `problem` says why the endpoint cannot be used, and `hint` what to do."""

    usual_url: str = ""
    headers: tuple[tuple[str, Secret], ...] = ()
    extra_body: str = ""
    token_limit: str = "max_tokens"
    reasoning: ReasoningField = ReasoningField.NONE
    caching: CacheStyle = CacheStyle.AUTOMATIC
    defers: str = ""
    request_timeout: float | None = None
    stale_timeout: float | None = None
    ssl_verify: bool = True
    ssl_ca_cert: str = ""
    models: tuple[str, ...] = ()
    """Models that the settings name."""
    discover: bool = True
    problem: str = ""
    hint: str = ""


NO_ENDPOINT_OPTIONS = EndpointOptions()


class ProviderModel(Section, frozen=True, kw_only=True):
    """What you know of a model at this provider."""

    context_length: int | None = setting(None, "Tokens it reads and writes together.", least=1)
    supports_vision: bool | None = setting(None, "Whether it takes pictures.")
    max_output_tokens: int | None = setting(None, "Tokens it writes at most.", least=1)
    timeout_seconds: float | None = setting(None, "Seconds a call of it may take.", least=1)


class ProviderSettings(Section, frozen=True, kw_only=True):
    """An endpoint of your own, used as `custom:<name>`; or, under the name of a provider that Hermes knows,
    what is different there. With a mistake in it, it does not count."""

    name: str = setting("", "What people call it.")
    base_url: str = setting("", "Its address.", form="url")
    api_key: Secret = setting(Secret(""), "Its key; best as `${NAME}`, a variable of `.env`.")
    key_env: str = setting("", "A variable that holds its key.")
    api_mode: str = setting("", "Its wire format; empty = as its address suggests.")
    model: str = setting("", "The model that is asked for if none is named.")
    models: dict[str, ProviderModel] = setting({}, "Its models, by name; a plain list of names will do.")
    discover_models: bool = setting(True, "Ask it which models it has.")
    max_output_tokens: int | None = setting(None, "Tokens that a call may write.", least=1)
    request_timeout_seconds: float | None = setting(None, "Seconds that a call may take.", least=1)
    stale_timeout_seconds: float | None = setting(
        None, "Seconds without a word after which a call is broken off.", least=1
    )
    extra_body: str = setting("", "Fields that are added to every request.", form="json")
    extra_headers: str = setting("", "Headers that are added to every request.", form="json")
    ssl_verify: bool = setting(True, "Whether its certificate must be valid.", instead=True)
    ssl_ca_cert: str = setting("", "A file with the certificates that vouch for it.")
    enabled: bool = setting(True, "Whether it may be used.", instead=False)


class ProviderRouting(Section, frozen=True, kw_only=True):
    """Which vendors OpenRouter may use for a model."""

    only: Names = setting((), "The only vendors.", instead=NONE_LISTED)
    ignore: Names = setting((), "Vendors that are not used.")
    order: Names = setting((), "Vendors to try first, in this order.")
    sort: str = setting("", "What counts among the rest.", choices=("", "price", "throughput", "latency"))
    require_parameters: bool = setting(
        False, "Only vendors that know every field of a request.", instead=True
    )
    data_collection: str = setting(
        "", "Whether vendors may keep what they are sent.", choices=("", "allow", "deny"), instead="deny"
    )
