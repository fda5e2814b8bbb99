"""Settings of the agents' web browser."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting


class BrowserSettings(Section, frozen=True, kw_only=True):
    """The web browser of agents: a Chromium or Chrome of this machine, started when it is first used."""

    path: str = setting("", "The program; empty = the Chromium or Chrome on the path.")
    cdp_url: str = setting(
        "",
        "A browser that runs already: `http://127.0.0.1:9222` or `ws://…`. Its network is its own.",
        env="BROWSER_CDP_URL",
    )
    inactivity_timeout: float = setting(
        120.0, "Seconds after which an unused page is closed.", env="BROWSER_INACTIVITY_TIMEOUT", least=1
    )
    command_timeout: float = setting(30.0, "Seconds that one step of the browser may take.", least=1)
    allow_private_urls: bool = setting(
        False, "Let the browser reach private networks, too; metadata of clouds never."
    )
    dialog_policy: str = setting(
        "must_respond",
        "What happens to alerts and other dialogs: the agent answers them, or they are answered for it.",
        choices=("must_respond", "auto_dismiss", "auto_accept"),
    )
    dialog_timeout_s: float = setting(300.0, "Seconds after which an open dialog is dismissed.", least=1)
