"""Settings of budgets: how much a person, an agent or a job may spend in a day, a month, or at all."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting

PERIODS = ("day", "month", "total")


class Budget(Section, frozen=True, kw_only=True):
    """For whoever fits all of `person`, `agent` and `job`; none of them = everything together. A name with
    `*` in it gives each that fits a budget of their own. With a mistake in it, it lets nothing through."""

    person: str = setting(
        "", "A person (`telegram:123456`) or an API key (`api_server@name`); `*` = each person."
    )
    agent: str = setting("", "An agent; `*` = each.")
    job: str = setting("", "A job's id; `*` = each job.")
    per: str = setting("day", "When it begins anew, in your `timezone`.", choices=PERIODS)
    dollars: float | None = setting(None, "Dollars; models need known prices.", least=0)
    tokens: int | None = setting(None, "Tokens, read and written together.", least=0)
    calls: int | None = setting(None, "Model calls.", least=0)


class AgentBudget(Section, frozen=True, kw_only=True):
    """How much one agent may spend. With a mistake in it, it lets nothing through."""

    per: str = setting("day", "When it begins anew, in its time zone.", choices=PERIODS)
    dollars: float | None = setting(None, "Dollars; models need known prices.", least=0)
    tokens: int | None = setting(None, "Tokens, read and written together.", least=0)
    calls: int | None = setting(None, "Model calls.", least=0)

    def of(self, agent: str) -> Budget | None:
        """As one of `budgets`; None if it limits nothing."""
        if self.dollars is self.tokens is self.calls is None:
            return None
        return Budget(agent=agent, per=self.per, dollars=self.dollars, tokens=self.tokens, calls=self.calls)
