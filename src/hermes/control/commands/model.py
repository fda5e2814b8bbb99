"""`/model`: which model answers in a session, and choosing another one, at any provider that can be used. The
conversation goes on with it; whether it still fits is said."""

from __future__ import annotations

from msgspec import Struct

from hermes.control.commands.registry import CommandCall, CommandReply, CommandRequest, command
from hermes.control.people.standing import is_trusted
from hermes.domain.errors import UserError
from hermes.domain.ports.models import ModelDirectory, ModelOption, describe_facts
from hermes.domain.text import one_line
from hermes.domain.turns.event import ModelSaid
from hermes.domain.word import replace

_DEFAULT = "default"
_MOST_LISTED = 30
_LOOKED_AT = 50
_SWITCHES = ("global", "session", "refresh")
_USAGE = "[name|default] [--provider p] [--global|--session] [--refresh]"


class ModelWish(Struct, frozen=True, kw_only=True):
    """What somebody asked for, and what became of it outside the transaction."""

    name: str
    option: ModelOption | None = None
    adopted: str = ""


def _read(args: str) -> dict[str, str]:
    """The flags by name, and the model under the empty name."""
    # A phone makes one long dash of two.
    words, given = iter(args.replace("—", "--").split()), {"": ""}
    for word in words:
        flag = word.removeprefix("--")
        if flag == word:
            given[""] = f"{given['']} {word}".strip()
        elif flag == "provider" and (value := next(words, "")):
            given[flag] = value
        elif flag in _SWITCHES:
            given[flag] = flag
        else:
            raise UserError(
                f"/model does not understand {one_line(word, 40)}.", hint=f"Write /model {_USAGE}."
            )
    if "global" in given and "session" in given:
        raise UserError("A model is chosen for this session or for all, not for both.", hint="Leave one out.")
    return given


async def _look_up(request: CommandRequest) -> ModelWish:
    asked, directory, agent = _read(request.args), _directory(request), request.session.agent
    name, provider, refresh = asked[""], asked.get("provider", ""), "refresh" in asked
    if "global" in asked and not request.is_admin:
        raise UserError("Only an admin chooses the model for everybody.", hint="Leave out --global.")
    if name.casefold() == _DEFAULT or not (name or provider):
        if refresh:
            await directory.find(agent, "", "", True)
        return ModelWish(name=name)
    option = await directory.find(agent, name, provider, refresh)
    if option.title != directory.describe(agent, "").title and not _may_leave(request):
        raise UserError(
            "Only the owner and admins choose a model of another provider.", hint="/model lists what is here."
        )
    adopted = await directory.adopt(option) if "global" in asked else ""
    return ModelWish(name=name, option=option, adopted=adopted)


def _may_leave(request: CommandRequest) -> bool:
    """Whether somebody may use the owner's other keys."""
    return is_trusted(request.source, request.settings)


def _directory(request: CommandRequest) -> ModelDirectory:
    if request.gateway.directory is None:
        raise UserError("There are no models to choose from here.")
    return request.gateway.directory


@command("model", "show or choose this session's model", usage=_USAGE, mid_turn=False, prepare=_look_up)
def model(call: CommandCall) -> CommandReply:
    wish: ModelWish = call.prepared
    own = _line(_directory(call).describe(call.session.agent, ""), call.model)
    if wish.option is None and wish.name:
        call.tx.sessions.save(replace(call.session, model=None))
        return CommandReply(text=f"This session answers with the default again: {own}.")
    if wish.option is None:
        return CommandReply(text=_listing(call))
    call.tx.sessions.save(replace(call.session, model=None if wish.adopted else wish.option.name))
    first = wish.adopted or f"This session answers with {wish.option.name} from now on."
    lines = [first, describe_facts(wish.option.facts), wish.option.note, _fit(call, wish.option)]
    return CommandReply(text="\n".join(filter(None, lines)))


def _line(option: ModelOption, otherwise: str) -> str:
    by = f" ({option.title})" if option.title else ""
    return f"{option.name}{by}" if option.name else otherwise or "not set"


def _listing(call: CommandCall) -> str:
    """What answers now, and what may be chosen."""
    directory, agent = _directory(call), call.session.agent
    option = directory.describe(agent, call.session.model or "")
    details = describe_facts(option.facts)
    names = list(directory.names(agent))
    more = len(names) - _MOST_LISTED
    also = f" and {more} more that the provider offers" if more > 0 else ""
    others = ", ".join(directory.providers(agent)) if _may_leave(call) else ""
    lines = [f"Model: {_line(option, call.model)}{f', {details}' if details else ''}"]
    lines.append(f"To choose from: {', '.join([*names[:_MOST_LISTED], _DEFAULT])}{also}")
    if others:
        lines.append(f"Also at: {others} (write /model <name> --provider <provider>)")
    return "\n".join(lines)


def _fit(call: CommandCall, option: ModelOption) -> str:
    """A warning if the conversation is longer than the model reads."""
    newest = call.tx.journal.read(call.session.id, most=_LOOKED_AT, newest=True)
    sizes = [entry.record.usage for entry in reversed(newest) if isinstance(entry.record, ModelSaid)]
    size = next((used.prompt + used.completion for used in sizes if used.prompt), 0)
    if not option.facts.window or size <= option.facts.window:
        return ""
    return (
        f"⚠️ This conversation has about {size:,} tokens, more than it reads ({option.facts.window:,}). "
        "/compress shortens it, /new begins anew."
    )
