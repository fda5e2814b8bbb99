"""GitHub on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Flavour, Grade, Manifest
from hermes.entry.kit.fields import option

MANIFEST = Manifest(
    name="github",
    title="GitHub",
    adapter="hermes.entry.platforms.github.adapter:GithubAdapter",
    capabilities=Capabilities(
        # 65,536 are taken; the mark by which a comment is found again needs some of them.
        max_text=65_000,
        flavour=Flavour.COMMONMARK,
        threads=Grade.FULL,
        history=True,
        receives=False,
    ),
    requires=("aiohttp",),
    settings=(
        option(
            "GITHUB_TOKEN",
            "A token that may write comments; without one the `gh` command is used",
            "GitHub → Settings → Developer settings → Fine-grained tokens.",
            secret=True,
        ),
    ),
    evidence="E: our fake of the comments' endpoints, from GitHub's documents",
)
