"""Settings of agents and routes: who lives in this gateway beside `main`, and what goes to whom."""

from __future__ import annotations

from typing import Any, cast

from msgspec import NODEFAULT

from hermes.domain.chats.address import Source, SourceKind
from hermes.domain.ids import AgentId
from hermes.domain.settings.budgets import AgentBudget
from hermes.domain.settings.declaring import EVERY_ONE, Names, Section, setting

UNREADABLE = "(unreadable)"
"""Replaces the name of a backend that cannot be read: there is none called so."""
NO_NETWORK_WORD, OPEN_NETWORK_WORD = "none", "open"
SUBAGENT = "subagent"


class AgentApprovals(Section, frozen=True, kw_only=True):
    """What differs for one agent from `approvals`; what is not said is as for all."""

    mode: str = setting(
        "",
        "Who decides about its dangerous actions; empty = as for all.",
        choices=("", "manual", "smart", "off"),
        instead="manual",
    )
    deny: Names = setting((), "Further commands that it never runs.", instead=EVERY_ONE)
    ask: Names = setting((), "Further commands that are asked for each time.", instead=EVERY_ONE)
    timeout: float | None = setting(None, "Seconds its requests stay open; empty = as for all.", least=0)
    cron_mode: str = setting(
        "",
        "What its jobs get that would have to ask; empty = as for all.",
        choices=("", "deny", "approve"),
        instead="deny",
    )


class HostedAgent(Section, frozen=True, kw_only=True):
    """An agent that this gateway hosts beside `main`."""

    description: str = setting("", "What it is for, in a few words.")
    model: str = setting("", "Its model; empty = the gateway's.")
    provider: str = setting("", "Its provider; empty = the gateway's.")
    home_dir: str = setting("", "Its folder; empty = `agents/<id>` in the home, relative = from the home.")
    enabled_toolsets: Names = setting(
        (),
        "The only toolsets it has; not set = all, written and empty = none. Also `toolsets`.",
        instead=("none",),
        empty_denies=True,
    )
    disabled_toolsets: Names = setting((), "Toolsets it does not have.")
    backend: str = setting(
        "",
        "Where its commands run, unless a route names another; not set = `terminal.backend`.",
        instead=UNREADABLE,
    )
    approvals: AgentApprovals = setting(AgentApprovals(), "What differs for it from `approvals`.")
    budget: AgentBudget = setting(
        AgentBudget(), "How much it may spend, beside `budgets`: `{per: day, dollars: 2}`."
    )
    timezone: str = setting(
        "", "The time zone of its prompts and jobs; empty = the gateway's.", form="timezone"
    )
    mode: str = setting(
        "all",
        "Who speaks with it: people and other agents (`all`), only people (`primary`), or only agents that "
        "delegate to it (`subagent`).",
        choices=("all", "primary", SUBAGENT),
        instead=SUBAGENT,
    )
    session_workspaces: bool = setting(
        False, "Give each conversation a folder of its own to work in, in `workspaces/` of its home."
    )


def _must_be(doc: str, **rules: Any) -> str | None:
    return setting(None, doc, if_empty="so the route does not count", **rules)


class RouteMatch(Section, frozen=True, kw_only=True):
    """Exact strings that must all hold; what is not given matches everything."""

    platform: str | None = _must_be("The platform's name.")
    account: str | None = _must_be("The account, where a platform has several.")
    kind: str | None = _must_be("The sort of place.", choices=tuple(kind.value for kind in SourceKind))
    chat_id: str | None = _must_be("The chat.")
    thread_id: str | None = _must_be("The thread or topic in it.")
    user_id: str | None = _must_be("The person.")
    user_id_alt: str | None = _must_be("The person's other, lasting id.")
    guild_id: str | None = _must_be("The server or workspace.")
    parent_chat_id: str | None = _must_be("The channel a thread belongs to.")
    role: str | None = _must_be("A role that the person has there, by its id.")

    def misses(self, source: Source) -> tuple[str, str, str] | None:
        """The first field that does not hold: its name, what it wants, and what the source has."""
        address = source.address
        pairs = (
            ("platform", self.platform, address.platform),
            ("account", self.account, address.account),
            ("kind", self.kind, source.kind.value),
            ("chat_id", self.chat_id, address.chat),
            ("thread_id", self.thread_id, address.thread),
            ("user_id", self.user_id, source.user),
            ("user_id_alt", self.user_id_alt, source.user_alt),
            ("guild_id", self.guild_id, source.guild),
            ("parent_chat_id", self.parent_chat_id, source.parent_chat),
        )
        for name, want, have in pairs:
            if want is not None and want != have:
                return name, want, have or ""
        if self.role is not None and self.role not in source.roles:
            return "role", self.role, ", ".join(source.roles)
        return None

    def fits(self, source: Source) -> bool:
        """Whether every field that is given is exactly the source's."""
        return self.misses(source) is None


class Route(Section, frozen=True, kw_only=True):
    """What comes from there and names no agent goes to this one; routes are tried in their order."""

    match: RouteMatch
    agent: AgentId = setting(cast(AgentId, NODEFAULT), "The agent that answers.")
    toolsets: Names = setting(
        (),
        "The only toolsets for what comes from there; not set = the agent's, written and empty = none.",
        instead=("none",),
        empty_denies=True,
    )
    backend: str = setting(
        "", "Where commands of what comes from there run; not set = `terminal.backend`.", instead=UNREADABLE
    )
    network: Names = setting(
        (),
        "What commands of what comes from there may reach, also those of strangers: `open`, `none` or a list "
        "of hosts; not set = `terminal.network`, and nothing for strangers.",
        instead=(NO_NETWORK_WORD,),
        empty_denies=True,
    )
