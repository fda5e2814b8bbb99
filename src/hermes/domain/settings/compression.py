"""Settings of compression: when a long conversation is shortened for the model, and what of it stays."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting


class CompressionSettings(Section, frozen=True, kw_only=True):
    """Long conversations are compressed: old results of tools are cleared, then old messages summarised."""

    enabled: bool = setting(True, "Whether that happens by itself; `/compress` works anyway.")
    background: bool = setting(
        True, "Compress beside the conversation, before it is too long, so that nobody waits for it."
    )
    threshold: float = setting(
        0.7, "How full the model's window is when that begins (0.7 = 70 %).", least=0.1, most=0.95
    )
    target_ratio: float = setting(
        0.2, "How much of that the latest messages may take, which stay as they are.", least=0.05, most=0.8
    )
    protect_first_n: int = setting(3, "Messages at the beginning that are kept word for word.", least=0)
    protect_last_n: int = setting(20, "Messages at the end that stay as they are, if they fit.", least=1)
