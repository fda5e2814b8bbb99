"""What the keys of the chat do, beside those that edit the line, which are prompt_toolkit's."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from prompt_toolkit.filters import Condition, has_completions, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys


class KeyActions(Struct, frozen=True, kw_only=True):
    """What may be asked for by a key."""

    send: Callable[[], None]
    interrupt: Callable[[], None]
    escape: Callable[[], None]
    end: Callable[[], None]
    paste: Callable[[str], None]
    unfold: Callable[[], None]
    move: Callable[[int], None]
    pick: Callable[[int], None]
    delete: Callable[[], None]
    suspend: Callable[[], None]
    redraw: Callable[[], None]
    is_choosing: Callable[[], bool]
    """Whether arrows and numbers choose, because nothing is written."""
    takes_numbers: Callable[[], bool]
    enter_sends: Callable[[], bool]


def chat_keys(act: KeyActions) -> KeyBindings:
    keys = KeyBindings()
    choosing = Condition(act.is_choosing)
    numbers = Condition(act.takes_numbers)
    sends = Condition(act.enter_sends)

    def on(*names: str, filter: Condition | None = None, do: Callable[[], None]) -> None:
        keys.add(
            *names,
            filter=~is_searching if filter is None else filter & ~is_searching,
            eager=filter is not None,
        )(lambda event: do())

    keys.add("enter", filter=sends & ~is_searching)(lambda event: _enter(event, act.send))
    keys.add("enter", filter=~sends & ~is_searching)(lambda event: event.current_buffer.insert_text("\n"))
    keys.add("escape", "enter", filter=sends)(lambda event: event.current_buffer.insert_text("\n"))
    keys.add("escape", "enter", filter=~sends)(lambda event: act.send())
    keys.add("c-j", filter=~is_searching)(lambda event: event.current_buffer.insert_text("\n"))
    on("c-c", do=act.interrupt)
    on("c-z", do=act.suspend)
    on("c-o", do=act.unfold)
    on("c-l", do=act.redraw)
    keys.add("escape", filter=~is_searching & ~has_completions & ~vi_insert_mode)(lambda event: act.escape())
    keys.add("escape", filter=has_completions, eager=True)(
        lambda event: event.current_buffer.cancel_completion()
    )
    keys.add("c-d", filter=~is_searching)(lambda event: _end(event, act))
    keys.add("c-x", "c-e")(lambda event: event.current_buffer.open_in_editor())
    keys.add("c-g", filter=~is_searching)(lambda event: event.current_buffer.open_in_editor())
    keys.add("tab", filter=~is_searching & ~has_completions)(_complete)
    for names in (("c-v",), ("escape", "v")):
        keys.add(*names, filter=~is_searching)(lambda event: act.paste(""))
    keys.add(Keys.BracketedPaste)(lambda event: act.paste(event.data))
    on("up", filter=choosing, do=lambda: act.move(-1))
    on("down", filter=choosing, do=lambda: act.move(1))
    for number in range(1, 10):
        on(str(number), filter=numbers, do=lambda number=number: act.pick(number))  # type: ignore[misc]
    return keys


def _enter(event: KeyPressEvent, send: Callable[[], None]) -> None:
    """A backslash before Enter goes on in a new line."""
    buffer = event.current_buffer
    if buffer.document.text_before_cursor.endswith("\\"):
        buffer.delete_before_cursor()
        buffer.insert_text("\n")
    else:
        send()


def _end(event: KeyPressEvent, act: KeyActions) -> None:
    if event.current_buffer.text:
        event.current_buffer.delete()
    elif act.is_choosing():
        act.delete()
    else:
        act.end()


def _complete(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.suggestion and buffer.document.is_cursor_at_the_end and not buffer.text.startswith("/"):
        buffer.insert_text(buffer.suggestion.text)
    else:
        buffer.start_completion(insert_common_part=True)
