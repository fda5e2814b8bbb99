"""Shows a turn in its chat while it runs: that it works, and what it says so far where drafts are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.control.feed import Feed
from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.accounts import PlatformAccounts
from hermes.control.outbound.draft import Draft
from hermes.control.outbound.lanes import Lanes
from hermes.control.outbound.typing import ActivityIndicator
from hermes.domain.address import SourceKind
from hermes.domain.clock import Clock
from hermes.domain.hooks import GATE_SEND
from hermes.domain.ports.store import Store
from hermes.domain.settings.settings import Settings
from hermes.domain.turn import Turn
from hermes.stream.fold.drafts import draft_pace
from hermes.stream.fold.turn_fold import ProgressLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDisplay:
    accounts: PlatformAccounts
    lanes: Lanes
    activity: ActivityIndicator
    store: Store
    clock: Clock
    settings: Settings
    hooks: Hooks

    def begin(self, turn: Turn, feed: Feed) -> None:
        """A turn starts to run, or goes on."""
        if turn.reply is None:
            return
        self.activity.begin(turn, feed)
        if self.hooks.follows(GATE_SEND):  # nothing is shown before the hook has seen it
            return
        platform = self.accounts.platform(turn.reply.to.credential)
        if platform is None:
            return
        kind = SourceKind.GROUP if turn.source is None else turn.source.kind
        pace = draft_pace(self.settings.streaming, platform.capabilities, kind)
        if pace is None:
            return
        progress = ProgressLevel(self.settings.display.tool_progress)
        draft = Draft(turn=turn, feed=feed, pace=pace, progress=progress, store=self.store, clock=self.clock)
        self.lanes.follow(turn.reply.to, draft)
