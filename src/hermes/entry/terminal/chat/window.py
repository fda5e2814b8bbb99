"""The few rows at the bottom that are redrawn, by prompt_toolkit: what is still open, the input, a menu, the
status line. Everything else is printed above them once, and belongs to the terminal from then on.

There is no other screen, no mouse and no question about the cursor's place. Each change is one write."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory, ConditionalAutoSuggest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, SearchBufferControl
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.layout.processors import AppendAutoSuggestion, BeforeInput, PasswordProcessor
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from hermes.entry.terminal.chat.replies import ReplyingInput, TerminalReplies
from hermes.entry.terminal.output import TerminalOutput

_INPUT_ROWS, _MENU_ROWS = 8, 7
_ESCAPE_SECONDS = 0.1
_RESTING_SECONDS = 0.3
"""Longer than tmux takes to tell of another size (250 ms)."""
_FORGET = "\x1b[3J"
_FIRST_ROW = "\r\n"
"""Nothing is drawn in the first row of a screen: tmux takes what is erased from there on into its history."""
_STYLE = Style.from_dict(
    {
        # Without the grey that is usual: the terminal's own colours can be read on every background.
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit dim",
        "completion-menu.meta.completion.current": "noinherit reverse",
        "auto-suggestion": "noinherit dim",
    }
)


def terminal_size(descriptor: int) -> Size:
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return Size(rows=24, columns=80)
    return Size(rows=size.lines or 24, columns=size.columns or 80)


class WindowParts(Struct, frozen=True, kw_only=True):
    """What stands in it, asked for whenever it is drawn: rows above the input, its prompt, rows below it (the
    choices of a question, the status), as terminal text."""

    above: Callable[[], Sequence[str]]
    prompt: Callable[[], str]
    below: Callable[[], Sequence[str]]
    hidden: Callable[[], bool]
    """Whether what is typed is not shown."""
    suggests: Callable[[], bool]
    """Whether earlier lines are suggested behind what is typed."""
    drawn: Callable[[], None]


class _QueuedOutput(Vt100_Output):
    """Hands over what prompt_toolkit writes, so that one drawing is one write."""

    def __init__(self, sink: TerminalOutput, descriptor: int, depth: ColorDepth) -> None:
        super().__init__(
            sys.stdout, lambda: terminal_size(descriptor), default_color_depth=depth, enable_cpr=False
        )
        self._sink = sink

    def erase_down(self) -> None:
        """From the beginning of a row. What is erased from the screen's first cell on goes into the history
        of tmux, so that cell is erased by itself."""
        self.write_raw("\x1b[C\x1b[J\r\x1b[K")

    def flush(self) -> None:
        self._sink.write("".join(self._buffer))
        self._buffer = []


class _ChatApplication(Application[None]):
    """One that draws nothing while its window changes: what stands there is erased first, and drawn again
    once the size rests, so that a terminal that wraps rows anew finds none to leave behind."""

    replies: TerminalReplies
    _drawn_for: Size | None = None
    _rests: asyncio.TimerHandle | None = None

    @property
    def is_resizing(self) -> bool:
        """Whether the window is another than what stands there was drawn for, or was just before."""
        size = self.output.get_size()
        if self._drawn_for in (None, size):
            return self._rests is not None
        self._erase(size.columns)
        self._drawn_for = size
        if self._rests is not None:
            self._rests.cancel()
        self._rests = asyncio.get_running_loop().call_later(_RESTING_SECONDS, self._rest)
        return True

    def _rest(self) -> None:
        self._rests = None
        self._redraw()

    def _erase(self, columns: int) -> None:
        """Rows that are wrapped anew have moved the cursor by as many as those above it take more now."""
        screen, cursor = self.renderer.last_rendered_screen, self.renderer._cursor_pos
        if self.replies.reflows and screen is not None:
            more = cursor.x // columns
            for row in range(cursor.y):
                cells = screen.data_buffer[row].items()
                more += max((at for at, cell in cells if cell.char.strip()), default=0) // columns
            self.output.cursor_up(more)
        self.renderer.erase(leave_alternate_screen=False)

    def _redraw(self, render_as_done: bool = False) -> None:
        if self._is_running and not self._running_in_terminal:
            if self.is_resizing and not render_as_done:
                return
            self._drawn_for = self.output.get_size()
        super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        self._redraw()


class ChatWindow:
    def __init__(
        self,
        *,
        output: TerminalOutput,
        descriptor: int,
        parts: WindowParts,
        keys: KeyBindings,
        replies: TerminalReplies,
        completer: Completer,
        history: Sequence[str],
        colour: bool,
    ) -> None:
        self._sink = output
        self._parts = parts
        kept: History = InMemoryHistory(list(history))
        self.buffer = Buffer(
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(self._completes),
            history=kept,
            auto_suggest=ConditionalAutoSuggest(AutoSuggestFromHistory(), Condition(parts.suggests)),
            enable_history_search=False,
        )
        self.hidden = Buffer(multiline=False)
        depth = ColorDepth.DEPTH_24_BIT if colour else ColorDepth.DEPTH_1_BIT
        self.app = _ChatApplication(
            layout=self._layout(),
            key_bindings=keys,
            style=_STYLE,
            input=ReplyingInput(sys.stdin, replies),
            output=_QueuedOutput(output, descriptor, depth),
            erase_when_done=True,
            mouse_support=False,
        )
        self.app.replies = replies
        self.app.ttimeoutlen = self.app.timeoutlen = _ESCAPE_SECONDS
        self.app.after_render += lambda app: parts.drawn()

    def _completes(self) -> bool:
        before = self.buffer.document.text_before_cursor
        word = before.rpartition(" ")[2].rpartition("\n")[2]
        return (before.startswith("/") and "\n" not in before) or word.startswith("@")

    def _layout(self) -> Layout:
        parts = self._parts
        search = SearchBufferControl(input_processors=[BeforeInput("search: ")])
        control = BufferControl(
            self.buffer,
            input_processors=[AppendAutoSuggestion()],
            search_buffer_control=search,
            preview_search=True,
        )
        hidden = BufferControl(self.hidden, input_processors=[PasswordProcessor()])
        is_hidden = Condition(parts.hidden)
        self._field = Window(
            control,
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(min=1, max=_INPUT_ROWS),
        )
        self._secret = Window(hidden, get_line_prefix=self._prefix, height=1)
        menu = Window(
            CompletionsMenuControl(), height=Dimension(min=1, max=_MENU_ROWS), dont_extend_height=True
        )
        return Layout(
            HSplit(
                [
                    _text(parts.above),
                    ConditionalContainer(self._field, ~is_hidden),
                    ConditionalContainer(self._secret, is_hidden),
                    ConditionalContainer(Window(search, height=1), is_searching),
                    ConditionalContainer(menu, has_completions & ~is_searching),
                    _text(parts.below),
                    Window(height=Dimension(min=0, preferred=0)),
                ]
            ),
            focused_element=self._field,
        )

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        first = line == 0 and wrapped == 0
        return to_formatted_text(ANSI(self._parts.prompt())) if first else [("", "  ")]

    # --- what others ask for ---

    def hide(self, hidden: bool) -> None:
        """Type into a field that shows nothing, or into the usual one again."""
        self.hidden.reset()
        self.app.layout.focus(self._secret if hidden else self._field)

    def use_vi(self, vi: bool) -> None:
        self.app.editing_mode = EditingMode.VI if vi else EditingMode.EMACS

    @property
    def is_away(self) -> bool:
        """Whether another program has the terminal, or nobody, or its window is just being changed."""
        return not self.app.is_running or self.app._running_in_terminal or self.app.is_resizing

    async def live(self) -> None:
        """Draw and read keys until somebody ends it; `EOFError` if nobody can type any more."""
        self._sink.write(_FIRST_ROW)
        await self.app.run_async(handle_sigint=False, set_exception_handler=False)

    async def suspend(self) -> None:
        """Stop, with nothing left drawn, until a shell brings it back."""
        async with in_terminal():
            await self._sink.drained(0)
            os.kill(0, signal.SIGTSTP)

    def end(self) -> None:
        if self.app.future is not None and not self.app.future.done():
            self.app.exit()

    def draw(self, printed: str = "", *, cleared: bool = False, history: bool = False) -> None:
        """Print what is finished, and draw the rows under it, on a screen that was `cleared`, with its
        `history` or without."""
        if printed or cleared:
            self.app.renderer.erase(leave_alternate_screen=False)
        if cleared:
            self._sink.write(f"\x1b[H\x1b[2J{_FORGET if history else ''}{_FIRST_ROW}")
        self._sink.write(printed.replace("\n", "\r\n"))
        self.app._redraw()

    def take_over(self) -> None:
        """The process was stopped and goes on: the terminal may be set as a shell wants it."""
        self.app.input.raw_mode().__enter__()
        self.app.renderer.reset()
        self.draw()

    def control(self, sequence: str) -> None:
        """A sequence that leaves no mark."""
        self._sink.write(sequence)


def _text(rows: Callable[[], Sequence[str]]) -> Window:
    def read() -> Any:
        return to_formatted_text(ANSI("\n".join(rows())))

    return Window(
        FormattedTextControl(read), dont_extend_height=True, height=lambda: Dimension.exact(len(rows()))
    )
