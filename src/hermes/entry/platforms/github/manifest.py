"""GitHub on paper."""

from __future__ import annotations

from hermes.domain.capabilities import Capabilities, Flavour, Grade, Manifest, SettingField

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
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="GITHUB_TOKEN",
            title="A token that may write comments; without one the `gh` command is used",
            required=False,
            secret=True,
            hint="GitHub → Settings → Developer settings → Fine-grained tokens.",
        ),
    ),
    evidence="E: our fake of the comments' endpoints, from GitHub's documents",
)
