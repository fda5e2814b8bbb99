"""Fetches the pip wheel named in a lock file, for a Python that came without pip.

The lock's hash decides what is accepted, so the index is only a place to look: the one that the environment
names. This project names none itself."""

import hashlib
import html
import os
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path


def read(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "text/html"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            body: bytes = answer.read()
            return body
    except OSError as error:
        raise SystemExit(
            f"pip could not be fetched from {urllib.parse.urlsplit(url).hostname}: {error}"
        ) from None


def find(page: str, hashes: set[str], url: str) -> str:
    for link in re.findall(r'href="([^"]+)"', page):
        address, _, fragment = html.unescape(link).partition("#")
        if address.endswith(".whl") and fragment.removeprefix("sha256=") in hashes:
            return urllib.parse.urljoin(url, address)
    raise SystemExit(f"The index {urllib.parse.urlsplit(url).hostname} does not have the locked pip.")


def main(lock: str, folder: str) -> None:
    hashes = set(re.findall(r"sha256:([0-9a-f]{64})", Path(lock).read_text()))
    index = os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX")
    if not index:
        raise SystemExit("Neither PIP_INDEX_URL nor UV_DEFAULT_INDEX names an index to fetch pip from.")
    url = index.rstrip("/") + "/pip/"
    address = find(read(url).decode(), hashes, url)
    wheel = read(address)
    if hashlib.sha256(wheel).hexdigest() not in hashes:
        raise SystemExit("The pip that arrived is not the locked one.")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "pip.whl").write_bytes(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
