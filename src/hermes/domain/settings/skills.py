"""Settings of skills: which agents have them, from where, and who is asked before one is written."""

from __future__ import annotations

from hermes.domain.settings.declaring import EVERY_ONE, Names, Section, setting


class PlatformSkills(Section, frozen=True, kw_only=True):
    """What a platform does without."""

    disabled: Names = setting((), "Skills that are not offered there; `*` = none is.", instead=EVERY_ONE)


class SkillSettings(Section, frozen=True, kw_only=True):
    """What agents can learn from folders with a `SKILL.md`."""

    disabled: Names = setting((), "Skills that agents do without, by name; `*` = all.", instead=EVERY_ONE)
    platform_disabled: dict[str, PlatformSkills] = setting(
        {}, "The same for a platform or account: `{telegram: [data-with-pandas]}`."
    )
    external_dirs: Names = setting((), "Further folders with skills, which are only read; `~` is your home.")
    bundled: bool = setting(True, "Whether agents have the skills that come with Hermes.", instead=False)
    template_vars: bool = setting(
        True, "Replace `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` in the text of a skill."
    )
    write_approval: bool = setting(True, "Ask the person before an agent changes a skill.")
    trusted: Names = setting(
        (),
        "Where trusted skills come from: addresses and what lies below them, like `https://github.com/acme`.",
    )
    hubs: Names = setting(
        (), "Sites that `hermes skills browse` and `search` ask for their index.", form="url"
    )
