"""Accounts in variables: `TELEGRAM_BOT_TOKEN__WORK` says for telegram@work what `TELEGRAM_BOT_TOKEN` says for
telegram. Behind the two underscores stands the account's name in capitals, with `_` for `-`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache

from hermes.domain.address import DEFAULT_ACCOUNT, account_problem
from hermes.domain.errors import UserError
from hermes.domain.settings.platforms import PlatformSettings
from hermes.state.settings.names import (
    ACCOUNT_MARK,
    is_key_like,
    platform_prefix,
    platform_variable,
    platform_variables,
    with_account,
)
from hermes.state.settings.values import knobs


@cache
def _fields(platforms: frozenset[str]) -> dict[str, str]:
    """The variables that every platform has, and whose they are."""
    found = {
        variable: platform
        for platform in platforms
        for knob in knobs(PlatformSettings).values()
        for variable in platform_variables(platform, knob.about.env)
    }
    return found | {platform_variable(platform, "token"): platform for platform in platforms}


def platform_of(variable: str, platforms: Iterable[str], also: Collection[str] = ()) -> str:
    """The platform that a variable belongs to, if it is a field of its block, a credential or in `also`."""
    known = frozenset(platforms)
    if variable in (own := _fields(known)):
        return own[variable]
    fits = [name for name in known if variable.startswith(f"{platform_prefix(name)}_")]
    if not fits or not (is_key_like(variable) or variable in also):
        return ""
    return max(fits, key=lambda name: len(platform_prefix(name)))


def named_account(variable: str, platforms: Iterable[str], also: Collection[str] = ()) -> tuple[str, str]:
    """The platform and the account that a variable is about; no platform if it is about none. Where no
    account can be called so it is a `UserError`."""
    plain, mark, said = variable.partition(ACCOUNT_MARK)
    platform = platform_of(plain if mark else variable, platforms, also)
    if not mark or not platform:
        return platform, DEFAULT_ACCOUNT
    account = said.lower().replace("_", "-")
    problem = account_problem(platform, account)
    if problem is not None:
        raise UserError(f"{variable}: {problem.message}", hint=problem.hint)
    if with_account(plain, account) != variable:
        raise UserError(f"{variable} is not read.", hint=f"Write it {with_account(plain, account)}.")
    return platform, account
