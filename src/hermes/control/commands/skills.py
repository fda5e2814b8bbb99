"""Skills as slash commands of their agent (`/plan a move`), and `/skills` to look after them."""

from __future__ import annotations

from functools import partial

from hermes.control.commands.registry import (
    SOURCES,
    CommandCall,
    CommandReply,
    CommandRequest,
    SlashCommand,
    command,
)
from hermes.control.commands.session import new_turn
from hermes.control.core import Runtime
from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import Skill, find_skills
from hermes.domain.ports.agent import SkillCare
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turns.turn import BusyMode, TurnInput

_LOOKS = ("list", "search")
_SHOWN = 30
_MOST_STACKED = 5


def skill_commands(settings: Settings, runtime: Runtime | None) -> list[SlashCommand]:
    """One for each skill of an agent."""
    if runtime is None or runtime.skills is None:
        return []
    return [
        SlashCommand(
            name=skill.name,
            run=_use,
            summary=one_line(skill.description, 80),
            usage="[task]",
            whole=True,
            prepare=partial(_load, runtime.skills, skill),
        )
        for skill in runtime.skills.all()
    ]


async def _load(skills: SkillCare, skill: Skill, request: CommandRequest) -> tuple[str, str]:
    """The instructions, and what is left of the words: further skills may stand before them."""
    names, words, there = [skill.name], request.args, {each.name for each in skills.all()}
    while len(names) < _MOST_STACKED and words.startswith("/"):
        name, _, rest = words[1:].partition(" ")
        if name.lower().replace("_", "-") not in there:
            break
        names.append(name)
        words = rest.lstrip()
    return await skills.load(names, request.source, request.session.id), words


def _use(call: CommandCall) -> CommandReply:
    instructions, words = call.prepared
    context = "\n\n".join(part for part in (call.context(), instructions) if part)
    text = words or f"Begin with the skill {call.name}: ask me for what you need."
    given = TurnInput(text=text, author=call.source.author, context=context)
    ahead = f"Queued behind {len(call.turns)}." if call.turns else ""
    return CommandReply(text=ahead, turn=new_turn(call, given, BusyMode.QUEUE))


async def _look_after(request: CommandRequest) -> str | None:
    verb = request.args.partition(" ")[0].lower()
    if verb in ("", *_LOOKS):
        return None
    if not request.is_admin:
        raise UserError("Only admins may change skills.", hint="/skills lists them.")
    if request.runtime.skills is None:
        raise UserError("This agent has no skills.")
    return await request.runtime.skills.act(request.args)


@command(
    "skills",
    "list skills; search, inspect, install, update or remove them",
    usage="[search or browse words | inspect, install, update or remove name]",
    prepare=_look_after,
    seconds=120.0,
)
def skills(call: CommandCall) -> CommandReply:
    if call.prepared is not None:
        return CommandReply(text=str(call.prepared))
    every = () if call.runtime.skills is None else call.runtime.skills.all()
    verb, _, words = call.args.partition(" ")
    hits = find_skills(words if verb else "", every, _SHOWN)
    if not hits:
        return CommandReply(text="No skill fits." if every else "There are no skills.")
    lines = [f"/{skill.name}: {one_line(skill.description, 100)} ({skill.trust})" for skill in hits]
    more = f"\n… and {len(every) - len(hits)} more" if len(every) > len(hits) and not words else ""
    return CommandReply(text="\n".join(lines) + more)


SOURCES.append(skill_commands)
