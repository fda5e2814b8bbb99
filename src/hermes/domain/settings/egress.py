"""Settings of the ways out: sites that nobody visits, and secrets that agents use without having them."""

from __future__ import annotations

from hermes.domain.settings.declaring import EVERY_ONE, NONE_LISTED, Names, Secret, Section, setting


class WebsiteBlocklist(Section, frozen=True, kw_only=True):
    """Sites that agents do not reach."""

    enabled: bool = setting(False, "Whether the lists count.", instead=True)
    domains: Names = setting((), "Their names; each stands for all below it, too.", instead=EVERY_ONE)
    shared_files: Names = setting(
        (), "Files with one name a line; relative = from the home.", instead=("(unreadable)",)
    )


class BrokeredSecret(Section, frozen=True, kw_only=True):
    """A secret that agents use without having it: they get a placeholder, and the gateway puts the value in
    on the way to the hosts it is bound to. With a mistake in it, it does not count at all."""

    value: Secret = setting(Secret(""), "The secret; best as `${NAME}`, a variable of `.env`.")
    hosts: Names = setting(
        (), "Hosts that it may go to, over TLS: `api.example.org`, `*.example.org`, `host:port`."
    )
    agents: Names = setting(("main",), "Agents that may use it; `*` = every one.", instead=NONE_LISTED)
    variable: str = setting("", "A variable in which commands in a sandbox find the placeholder.")
    places: Names = setting(
        ("headers",),
        "Where in a request it may stand.",
        choices=("headers", "url", "body"),
        instead=("headers",),
    )
