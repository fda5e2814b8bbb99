"""Home Assistant on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Manifest, SettingField
from hermes.entry.kit.fields import option, proxy_field

MANIFEST = Manifest(
    name="homeassistant",
    title="Home Assistant",
    adapter="hermes.entry.platforms.homeassistant.adapter:HomeAssistantAdapter",
    capabilities=Capabilities(
        max_text=4096,
        silence_seconds=120.0,
        # Only who can change automations there, or is watched by the operator's choice, is heard.
        knows_people=True,
        hint="It may be read aloud by a voice assistant: short plain sentences, no markup.",
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="HASS_TOKEN",
            title="A long-lived access token",
            secret=True,
            hint="In Home Assistant: your profile → Security → Long-lived access tokens → Create token.",
        ),
        option(
            "HASS_URL",
            "The address of your Home Assistant (http://homeassistant.local:8123)",
            "As in your browser, without a path.",
            asked=True,
            identifies=True,
        ),
        option(
            "HASS_WATCH_ENTITIES",
            "Entities whose changes are told to the agent",
            "For example binary_sensor.front_door, sensor.washer; separated by commas.",
        ),
        option(
            "HASS_WATCH_DOMAINS", "Whole domains that are watched, like binary_sensor, alarm_control_panel"
        ),
        option("HASS_IGNORE_ENTITIES", "Entities of these domains that are not watched"),
        option("HASS_COOLDOWN", "Seconds in which an entity is told of once (30)"),
        proxy_field("HASS_PROXY", "Home Assistant"),
    ),
    evidence="A: a real Home Assistant (2025.4.4), on request; else our fake",
)
