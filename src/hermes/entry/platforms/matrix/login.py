"""Who we are to a homeserver: by an access token, or by a user and a password that give one."""

from __future__ import annotations

from hashlib import sha256

from hermes.domain.adapter import AdapterContext
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.entry.kit.payload import as_text, dig
from hermes.entry.platforms.matrix.client import MatrixClient, path
from hermes.entry.platforms.matrix.sync import MatrixIdentity

TOKEN = "MATRIX_ACCESS_TOKEN"
_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_LOGINS: dict[str, str] = {}
"""Access tokens that passwords gave, in this process: each login more is one that the homeserver counts."""


def token_of(context: AdapterContext) -> str:
    """The access token, or nothing where a password is to give one."""
    token = context.setting(TOKEN)
    if not token and not (context.setting("MATRIX_USER_ID") and context.setting("MATRIX_PASSWORD")):
        raise NeedsLogin("Matrix needs MATRIX_ACCESS_TOKEN, or MATRIX_USER_ID and MATRIX_PASSWORD, to log in")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise NeedsLogin(f"{TOKEN} is no access token; one is a single word")
    return token


async def log_in(client: MatrixClient, context: AdapterContext) -> MatrixIdentity:
    await client.discover()
    if not client.token:
        client.token = await _token(client, context)
        # The token of a password may expire or be taken back; the next connection logs in again.
        client.renew = lambda: _LOGINS.pop(_key(client, context), None)
    account = await client.call("GET", "v3/account/whoami")
    user, device = as_text(dig(account, "user_id")), str(dig(account, "device_id") or "")
    if not user.startswith("@"):
        raise Unreachable("The homeserver does not say who we are")
    try:
        name = as_text(dig(await client.call("GET", f"v3/profile/{path(user)}/displayname"), "displayname"))
    except Refused:
        name = ""
    threads = is_on(context, "MATRIX_AUTO_THREAD")
    return MatrixIdentity(id=user, name=name, device=device, account=context.account, threads=threads)


def is_on(context: AdapterContext, variable: str) -> bool:
    said = context.setting(variable, "false").lower()
    if said not in (*_ON, *_OFF):
        raise UserError(f"{variable} is neither true nor false.")
    return said in _ON


def _key(client: MatrixClient, context: AdapterContext) -> str:
    said = (client.url, context.setting("MATRIX_USER_ID"), context.setting("MATRIX_PASSWORD"))
    return sha256("\0".join(said).encode()).hexdigest()


async def _token(client: MatrixClient, context: AdapterContext) -> str:
    key, user = _key(client, context), context.setting("MATRIX_USER_ID")
    if key in _LOGINS:
        return _LOGINS[key]
    # The same device every time: its transaction ids and its keys go on to count.
    device = "HERMES" + sha256(user.encode()).hexdigest()[:8].upper()
    asked = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": context.setting("MATRIX_PASSWORD"),
        "device_id": context.setting("MATRIX_DEVICE_ID", device),
        "initial_device_display_name": "Hermes Gateway",
    }
    try:
        told = await client.call("POST", "v3/login", asked)
    except Refused as error:
        raise NeedsLogin(
            f"The homeserver does not take MATRIX_USER_ID and MATRIX_PASSWORD: {error}"
        ) from None
    token = as_text(dig(told, "access_token"))
    if not token:
        raise Unreachable("The homeserver gives no access token")
    _LOGINS[key] = token
    return token
