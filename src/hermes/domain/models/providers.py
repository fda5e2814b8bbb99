"""The providers of models that Hermes knows by name: pure data, with the source of each vendor's facts beside
it. Who is chosen is decided in `agent/models/choose.py`; where keys come from, in the settings' loader."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from urllib.parse import urlsplit

from msgspec import Struct

CHAT_COMPLETIONS = "chat_completions"
CODEX_RESPONSES = "codex_responses"
ANTHROPIC_MESSAGES = "anthropic_messages"
CUSTOM = "custom"
NO_KEY = "none"
"""Stands where a key would, so that none is sent, whatever other keys are set."""
LOCAL = "local"
_TAG = re.compile(r"free|latest|v?\d[\d.x]*b?(-.*)?|(instruct|text|chat)(-.*)?", re.IGNORECASE)
"""What Ollama writes behind a colon, and OpenRouter: `free`."""
_HERE = "127.0.0.1"


class ProviderAuth(StrEnum):
    """How one shows who one is."""

    API_KEY = "api_key"
    OAUTH_DEVICE_CODE = "oauth_device_code"
    NONE = "none"


class ReasoningField(StrEnum):
    """Where a chat-completions request says how hard to think: nowhere, `reasoning_effort`, or OpenRouter's
    object `reasoning`."""

    NONE = "none"
    EFFORT = "reasoning_effort"
    OBJECT = "reasoning"


class CacheStyle(StrEnum):
    """How a prompt is cached: by itself, by marks that the request sets, or by a key that it gives."""

    AUTOMATIC = "automatic"
    MARKS = "marks"
    KEY = "key"


class ProviderSpec(Struct, frozen=True, kw_only=True):
    """`keys` are variables with the key, the first that is set counts; `base_url` may name variables in
    braces, with a default (`{AWS_REGION:us-east-1}`). `facts` is what models.dev calls the provider."""

    id: str
    title: str
    aliases: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    base_url: str = ""
    url_variable: str = ""
    """A variable with another address."""
    models_url: str = ""
    """Where it lists its models, if not below its address; `-` if it lists none."""
    api_mode: str = CHAT_COMPLETIONS
    responses: tuple[str, ...] = ()
    """Beginnings of names of models that are asked in the Responses format."""
    auth: ProviderAuth = ProviderAuth.API_KEY
    model: str = ""
    """Asked for if none is named."""
    aux_model: str = ""
    """A small one for work beside answering."""
    headers: tuple[tuple[str, str], ...] = ()
    token_limit: str = "max_tokens"
    """The field that limits how much is written, in chat completions; empty if it takes no limit at all."""
    reasoning: ReasoningField = ReasoningField.NONE
    caching: CacheStyle = CacheStyle.AUTOMATIC
    defers: str = ""
    """A pattern of the models that take deferred tools in the way of their own format; all others, and all of
    a provider without one, are told of the bridge."""
    facts: str = ""
    included: bool = False
    """Whether what it takes is paid by a subscription."""
    sign: tuple[str, str] = ("", "")
    """What a server of this kind, and no other, answers on this machine: a path, and a key of the JSON object
    that is there."""

    @property
    def places(self) -> tuple[str, ...]:
        """The variables in its address."""
        return tuple(part.partition("}")[0].partition(":")[0] for part in self.base_url.split("{")[1:])

    @property
    def is_local(self) -> bool:
        """Whether it is a server of this machine, found by its port."""
        return bool(self.sign[0])


_LISTED = (
    # openrouter.ai/docs/api-reference/overview (headers, reasoning object), …/features/prompt-caching
    ProviderSpec(
        id="openrouter",
        title="OpenRouter",
        aliases=("or",),
        keys=("OPENROUTER_API_KEY",),
        base_url="https://openrouter.ai/api/v1",
        url_variable="OPENROUTER_BASE_URL",
        model="openrouter/auto",
        aux_model="google/gemini-2.5-flash",
        headers=(("X-Title", "Hermes Gateway"),),
        reasoning=ReasoningField.OBJECT,
        caching=CacheStyle.MARKS,
        facts="openrouter",
    ),
    # platform.openai.com/docs/api-reference/chat (max_completion_tokens; max_tokens is refused by o models),
    # …/docs/guides/migrate-to-responses, …/docs/guides/prompt-caching (prompt_cache_key);
    # developers.openai.com/api/docs/guides/tools-tool-search (gpt-5.4 and later), but for its nano model:
    # github.com/Oaklight/llm-rosetta/issues/394
    ProviderSpec(
        id="openai",
        title="OpenAI",
        keys=("OPENAI_API_KEY",),
        base_url="https://api.openai.com/v1",
        responses=("gpt-5", "gpt-6", "o1", "o3", "o4", "codex-", "computer-use"),
        model="gpt-4.1-mini",
        aux_model="gpt-4.1-mini",
        token_limit="max_completion_tokens",
        reasoning=ReasoningField.EFFORT,
        caching=CacheStyle.KEY,
        defers=r"gpt-(5\.([4-9]|\d\d)|[6-9])(?!.*nano)",
        facts="openai",
    ),
    # docs.claude.com/en/api/overview, …/en/api/models-list;
    # platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool (which models: Fable, Mythos,
    # Sonnet 4.0+, Opus 4.0+, Haiku 4.5+)
    ProviderSpec(
        id="anthropic",
        title="Anthropic",
        aliases=("claude", "claude-code", "claude-oauth"),
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        base_url="https://api.anthropic.com",
        url_variable="ANTHROPIC_BASE_URL",
        models_url="https://api.anthropic.com/v1/models?limit=1000",
        api_mode=ANTHROPIC_MESSAGES,
        model="claude-sonnet-4-6",
        aux_model="claude-haiku-4-5",
        caching=CacheStyle.MARKS,
        defers=r"claude-((sonnet|opus)-([4-9]|\d\d\b)|haiku-(4-[5-9]|[5-9])|fable|mythos)",
        facts="anthropic",
    ),
    # portal.nousresearch.com/api-docs
    ProviderSpec(
        id="nous",
        title="Nous Portal",
        aliases=("nous-portal", "nousresearch"),
        keys=("NOUS_API_KEY",),
        base_url="https://inference-api.nousresearch.com/v1",
        url_variable="NOUS_INFERENCE_BASE_URL",
        auth=ProviderAuth.OAUTH_DEVICE_CODE,
        model="Hermes-4-405B",
        aux_model="Hermes-4-70B",
        reasoning=ReasoningField.OBJECT,
    ),
    # ai.google.dev/gemini-api/docs/openai
    ProviderSpec(
        id="gemini",
        title="Google Gemini",
        aliases=("google", "google-gemini", "google-ai-studio"),
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        url_variable="GEMINI_BASE_URL",
        model="gemini-2.5-flash",
        aux_model="gemini-2.5-flash",
        reasoning=ReasoningField.EFFORT,
        facts="google",
    ),
    # docs.mistral.ai/api
    ProviderSpec(
        id="mistral",
        title="Mistral",
        aliases=("mistralai",),
        keys=("MISTRAL_API_KEY",),
        base_url="https://api.mistral.ai/v1",
        url_variable="MISTRAL_BASE_URL",
        model="mistral-medium-latest",
        aux_model="mistral-small-latest",
        facts="mistral",
    ),
    # api-docs.deepseek.com
    ProviderSpec(
        id="deepseek",
        title="DeepSeek",
        aliases=("deepseek-chat",),
        keys=("DEEPSEEK_API_KEY",),
        base_url="https://api.deepseek.com/v1",
        url_variable="DEEPSEEK_BASE_URL",
        model="deepseek-chat",
        aux_model="deepseek-chat",
        facts="deepseek",
    ),
    # docs.x.ai/docs/api-reference
    ProviderSpec(
        id="xai",
        title="xAI",
        aliases=("grok", "x-ai", "x.ai"),
        keys=("XAI_API_KEY",),
        base_url="https://api.x.ai/v1",
        url_variable="XAI_BASE_URL",
        model="grok-4.3",
        aux_model="grok-4.3",
        facts="xai",
    ),
    # console.groq.com/docs/openai, …/docs/api-reference (max_completion_tokens)
    ProviderSpec(
        id="groq",
        title="Groq",
        keys=("GROQ_API_KEY",),
        base_url="https://api.groq.com/openai/v1",
        url_variable="GROQ_BASE_URL",
        model="openai/gpt-oss-120b",
        aux_model="openai/gpt-oss-20b",
        token_limit="max_completion_tokens",
        reasoning=ReasoningField.EFFORT,
        facts="groq",
    ),
    # docs.z.ai/api-reference
    ProviderSpec(
        id="zai",
        title="Z.AI",
        aliases=("glm", "z-ai", "z.ai", "zhipu"),
        keys=("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"),
        base_url="https://api.z.ai/api/paas/v4",
        url_variable="GLM_BASE_URL",
        model="glm-5.1",
        aux_model="glm-4.5-flash",
        facts="zai",
    ),
    # platform.moonshot.ai/docs/api/chat
    ProviderSpec(
        id="kimi-coding",
        title="Kimi",
        aliases=("kimi", "moonshot", "kimi-for-coding"),
        keys=("KIMI_API_KEY", "KIMI_CODING_API_KEY", "MOONSHOT_API_KEY"),
        base_url="https://api.moonshot.ai/v1",
        url_variable="KIMI_BASE_URL",
        model="kimi-k2.6",
        aux_model="kimi-k2-turbo-preview",
        facts="moonshotai",
    ),
    # platform.minimax.io/docs/api-reference/text-anthropic-api
    ProviderSpec(
        id="minimax",
        title="MiniMax",
        aliases=("mini-max",),
        keys=("MINIMAX_API_KEY",),
        base_url="https://api.minimax.io/anthropic",
        url_variable="MINIMAX_BASE_URL",
        models_url="-",
        api_mode=ANTHROPIC_MESSAGES,
        model="MiniMax-M2.7",
        aux_model="MiniMax-M2.7-highspeed",
        caching=CacheStyle.MARKS,
        facts="minimax",
    ),
    # docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html
    ProviderSpec(
        id="bedrock",
        title="Amazon Bedrock",
        aliases=("aws", "aws-bedrock", "amazon-bedrock", "amazon"),
        keys=("AWS_BEARER_TOKEN_BEDROCK",),
        base_url="https://bedrock-runtime.{AWS_REGION:us-east-1}.amazonaws.com/openai/v1",
        models_url="-",
        model="openai.gpt-oss-120b-1:0",
        aux_model="openai.gpt-oss-20b-1:0",
        facts="amazon-bedrock",
    ),
    # cloud.google.com/vertex-ai/generative-ai/docs/start/openai; it takes OAuth access tokens, no API keys
    ProviderSpec(
        id="vertex",
        title="Google Vertex AI",
        aliases=("google-vertex", "vertex-ai", "gcp-vertex"),
        keys=("VERTEX_ACCESS_TOKEN",),
        base_url="https://{VERTEX_REGION:global}-aiplatform.googleapis.com/v1/projects/{VERTEX_PROJECT_ID}"
        "/locations/{VERTEX_REGION:global}/endpoints/openapi",
        models_url="-",
        model="google/gemini-2.5-flash",
        aux_model="google/gemini-2.5-flash",
        reasoning=ReasoningField.EFFORT,
        facts="google-vertex",
    ),
    # github.com/openai/codex (codex-rs: the address, the Responses format, the login with a device code)
    ProviderSpec(
        id="openai-codex",
        title="OpenAI Codex",
        aliases=("codex", "openai_codex"),
        base_url="https://chatgpt.com/backend-api/codex",
        models_url="-",
        api_mode=CODEX_RESPONSES,
        auth=ProviderAuth.OAUTH_DEVICE_CODE,
        model="gpt-5.5",
        aux_model="gpt-5.4-mini",
        token_limit="",
        caching=CacheStyle.KEY,
        facts="openai",
        included=True,
    ),
    # github.com/ollama/ollama/blob/main/docs/openai.md; lmstudio.ai/docs/api;
    # github.com/ggml-org/llama.cpp tools/server/README.md;
    # docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    ProviderSpec(
        id="ollama",
        title="Ollama",
        keys=("OLLAMA_API_KEY", "OPENAI_API_KEY"),
        base_url=f"http://{_HERE}:11434/v1",
        auth=ProviderAuth.NONE,
        reasoning=ReasoningField.EFFORT,
        sign=("/api/tags", "models"),
    ),
    ProviderSpec(
        id="lmstudio",
        title="LM Studio",
        aliases=("lm-studio",),
        keys=("LM_API_KEY", "OPENAI_API_KEY"),
        base_url=f"http://{_HERE}:1234/v1",
        url_variable="LM_BASE_URL",
        auth=ProviderAuth.NONE,
        sign=("/api/v0/models", "data"),
    ),
    ProviderSpec(
        id="llamacpp",
        title="llama.cpp",
        aliases=("llama.cpp", "llama-cpp"),
        keys=("LLAMA_API_KEY", "OPENAI_API_KEY"),
        base_url=f"http://{_HERE}:8080/v1",
        auth=ProviderAuth.NONE,
        sign=("/props", "default_generation_settings"),
    ),
    ProviderSpec(
        id="vllm",
        title="vLLM",
        keys=("VLLM_API_KEY", "OPENAI_API_KEY"),
        base_url=f"http://{_HERE}:8000/v1",
        auth=ProviderAuth.NONE,
        sign=("/version", "version"),
    ),
    ProviderSpec(id=CUSTOM, title="an OpenAI-compatible service", keys=("CUSTOM_API_KEY", "OPENAI_API_KEY")),
)
PROVIDERS: Mapping[str, ProviderSpec] = {spec.id: spec for spec in _LISTED}
"""By id, in the order in which `auto` looks for keys."""
_NAMED = {name: spec for spec in _LISTED for name in (spec.id, *spec.aliases)}
_HOSTS = {
    urlsplit(spec.base_url).hostname: spec
    for spec in _LISTED
    if spec.base_url and "{" not in spec.base_url and not spec.is_local
}


def find_provider(name: str) -> ProviderSpec | None:
    """By its id or another name of it."""
    return _NAMED.get(name.strip().lower())


def provider_at(url: str) -> ProviderSpec | None:
    """The provider that an address belongs to, by its host."""
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return None
    return next((spec for known, spec in _HOSTS.items() if host == known or host.endswith(f".{known}")), None)


def has_tag(name: str) -> bool:
    """Whether a name with a colon is certainly that of a model: no provider has a `/`, nor stands before a
    tag."""
    head, _, tag = name.partition(":")
    return "/" in head or _TAG.fullmatch(tag) is not None


def split_model(name: str, own: Collection[str] = ()) -> tuple[str, str]:
    """`anthropic:claude-x` as provider and model, `custom:mine:some-model` likewise. A name without a
    provider that we know, like `qwen3:8b`, has none; nor has `mistral:7b`, which is one of Ollama's. `own`
    are endpoints of the settings, which may be named in short."""
    head, colon, rest = name.partition(":")
    if not colon or not rest:
        return "", name
    if head.strip().lower() == CUSTOM:
        inner, colon, model = rest.partition(":")
        return (f"{CUSTOM}:{inner}", model) if colon and model else (CUSTOM, rest)
    spec = find_provider(head)
    if spec is None and head.strip().lower() in own:
        return f"{CUSTOM}:{head.strip().lower()}", rest
    return ("", name) if spec is None or _TAG.fullmatch(rest) else (spec.id, rest)
