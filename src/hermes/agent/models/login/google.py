"""The login that Google's own program keeps on this machine (`gcloud auth application-default login`), for
Vertex AI: its access tokens live an hour, so a token in a variable would end in the middle of a day.

cloud.google.com/docs/authentication/application-default-credentials says where it lies, and
developers.google.com/identity/protocols/oauth2/web-server#offline how it is renewed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.models.credential import OAuthClient
from hermes.domain.settings.declaring import Secret

PROVIDER = "vertex"
TITLE = "Google Vertex AI"
TOKEN_URL = "https://oauth2.googleapis.com/token"
_AGAIN = "gcloud auth application-default login"
_FILE = "application_default_credentials.json"
_LARGEST = 64 * 1024


def read_google_login(environ: Mapping[str, str]) -> tuple[Secret, OAuthClient]:
    """The refresh token, and as whom and where it is renewed. Blocking."""
    folder = environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    path = Path(environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.join(folder, _FILE))
    try:
        with path.open("rb") as file:
            kept = json.loads(file.read(_LARGEST))
    except OSError as error:
        raise UserError(
            f"There is no login of Google's: {path} cannot be read.", hint=f"Run first: {_AGAIN}"
        ) from error
    except (ValueError, RecursionError):
        kept = None
    kept = kept if isinstance(kept, dict) else {}
    names = ("client_id", "client_secret", "refresh_token")
    client, secret, refresh = (value if isinstance(value := kept.get(n), str) else "" for n in names)
    if kept.get("type") != "authorized_user" or not (client and refresh):
        what = "holds the key of a service account" if kept.get("type") == "service_account" else "holds none"
        raise UserError(f"{path} {what}, not the login of a person.", hint=f"Run first: {_AGAIN}")
    remedy = f"{_AGAIN}, then: hermes login {PROVIDER}"
    return Secret(refresh), OAuthClient(
        token_url=TOKEN_URL, client_id=client, client_secret=Secret(secret), remedy=remedy
    )
