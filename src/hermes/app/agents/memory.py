"""The memories of an agent: its own files, and the one that a plugin brings if the settings name it."""

from __future__ import annotations

from hermes import plugins
from hermes.domain.ports.agent import Memory
from hermes.domain.settings.settings import Profile
from hermes.state.settings.loader import LoadedSettings

BUILT_IN = "files"


def make_memories(profile: Profile, loaded: LoadedSettings) -> dict[str, Memory]:
    """May import plugins: call it off the loop. A name that no plugin has is a `SettingsError`; a plugin that
    breaks is left out."""
    makers, wanted = plugins.memories(profile.settings.plugins), profile.settings.memory.provider
    wanted = "" if wanted == "none" else wanted
    if wanted and wanted not in makers and plugins.is_installed(plugins.MEMORY, wanted):
        wanted = ""  # it is broken or disabled, and that was told of
    if wanted and wanted not in makers:
        others = ", ".join(sorted(makers.keys() - {BUILT_IN})) or "none is installed"
        message = f"memory.provider: there is no memory “{wanted}”."
        raise loaded.wrong("memory.provider", message, f"Plugins that bring one: {others}.")
    made = {name: plugins.make_memory(name, makers[name], profile) for name in (BUILT_IN, wanted) if name}
    return {name: memory for name, memory in made.items() if memory is not None}
