"""Settings of checkpoints: states of the workspace that `/rollback` and `/undo` go back to."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting


class CheckpointSettings(Section, frozen=True, kw_only=True):
    """Before a turn first changes files, the state of its workspace is kept."""

    enabled: bool = setting(True, "Whether states are kept; `/undo` then takes back changes of files too.")
    max_snapshots: int = setting(20, "How many are kept of one folder.", least=1, most=1000)
    max_total_size_mb: int = setting(
        500, "How much space those of one agent may take; the oldest go first.", least=1
    )
    max_file_size_mb: int = setting(10, "Larger files are left out.", least=1)
    auto_prune: bool = setting(True, "Remove old ones once a day; else only `hermes checkpoints prune` does.")
    retention_days: int = setting(7, "How many days they are kept.", least=1)
