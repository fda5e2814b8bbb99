"""Two clients of the Telegram Bot API that we did not write use a server as they would use Telegram's; what
they saw is printed as JSON. Which one, the server's address and the token are the arguments; aiogram is also
given a file with calls of our adapter's, to hold them against its models."""

from __future__ import annotations

import asyncio
import json
import sys


async def with_ptb(url: str, token: str) -> dict[str, object]:
    from telegram import InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters
    from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, RetryAfter
    from telegram.ext import ApplicationBuilder, CallbackQueryHandler, MessageHandler, filters

    seen: list[str] = []
    done = asyncio.Event()
    found: dict[str, object] = {}

    async def on_message(update, context) -> None:
        message = update.effective_message
        if message.photo or message.voice or message.document:
            file = await (
                message.effective_attachment[-1] if message.photo else message.effective_attachment
            ).get_file()
            seen.append(f"file {bytes(await file.download_as_bytearray()).hex()[:8]}")
            return
        seen.append(f"{message.chat.type} {message.from_user.id} {message.text}")
        if message.text == "hello":
            keys = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="q_1:yes")]])
            await context.bot.send_chat_action(message.chat.id, "typing")
            sent = await context.bot.send_message(
                message.chat.id,
                "<b>May</b> I &amp; you?",
                parse_mode="HTML",
                reply_markup=keys,
                reply_parameters=ReplyParameters(message.message_id),
            )
            found["sent"] = [sent.text, sent.entities[0].type, sent.reply_to_message.text]
            found["edited"] = (await sent.edit_text("May I not?", reply_markup=keys)).text

    async def on_press(update, context) -> None:
        query = update.callback_query
        found["answered"] = await query.answer()
        seen.append(f"pressed {query.data} {query.message.text}")
        done.set()

    app = ApplicationBuilder().token(token).base_url(f"{url}/bot").base_file_url(f"{url}/file/bot").build()
    app.add_handler(MessageHandler(filters.ALL, on_message))
    app.add_handler(CallbackQueryHandler(on_press))
    async with app:
        found["me"] = app.bot.username
        await app.start()
        await app.updater.start_polling(drop_pending_updates=False)
        await asyncio.wait_for(done.wait(), 300)
        photo = await app.bot.send_photo(501, b"\x89PNG of no size", caption="<i>look</i>", parse_mode="HTML")
        found["photo"] = [len(photo.photo) > 0, photo.caption, photo.caption_entities[0].type]
        document = await app.bot.send_document(501, b"abc", filename="a.txt")
        file = await document.document.get_file()
        found["file"] = bytes(await file.download_as_bytearray()).decode()
        found["reaction"] = await app.bot.set_message_reaction(501, photo.message_id, "👍")
        topic = await app.bot.create_forum_topic(-1009876543210, "Plans")
        found["topic"] = topic.name
        found["commands"] = await app.bot.set_my_commands([("status", "how it is")])
        found["deleted"] = await app.bot.delete_message(501, photo.message_id)
        errors = []
        for chat, text in ((501, "x" * 4097), (999, "x"), (666, "x"), (429, "x")):
            try:
                await app.bot.send_message(chat, text)
            except (BadRequest, Forbidden, RetryAfter) as error:
                errors.append([type(error).__name__, str(error).partition(".")[0]])
        found["errors"] = errors
        await app.updater.stop()
        await app.stop()
        await app.bot.set_webhook("https://example.invalid/hook", secret_token="s3cret")
        found["webhook"] = (await app.bot.get_webhook_info()).url
        try:
            await app.bot.get_updates()
        except Conflict as error:
            found["conflict"] = str(error)[:35]
        await app.bot.delete_webhook()
    wrong = ApplicationBuilder().token("1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").base_url(f"{url}/bot").build()
    try:
        async with wrong:
            pass
    except InvalidToken as error:
        found["wrong token"] = type(error).__name__
    return {"seen": seen, **found}


async def with_aiogram(url: str, token: str, calls: str, samples: str) -> dict[str, object]:
    from aiogram import Bot
    from aiogram.client.session.aiohttp import AiohttpSession
    from aiogram.client.telegram import TelegramAPIServer
    from aiogram.exceptions import TelegramBadRequest
    from aiogram.types import BufferedInputFile, InputMediaPhoto

    found: dict[str, object] = {"checked": check_requests(calls), "samples": check_updates(samples)}
    async with Bot(token, session=AiohttpSession(api=TelegramAPIServer.from_base(url))) as bot:
        found["me"] = (await bot.get_me()).username
        updates = await bot.get_updates(timeout=5)
        found["updates"] = [one.event_type for one in updates]
        left = await bot.get_updates(offset=updates[-1].update_id + 1, timeout=0)
        found["left"] = len(left)
        sent = await bot.send_message(
            501, '<pre><code class="language-python">x</code></pre>', parse_mode="HTML"
        )
        found["sent"] = [sent.text, sent.entities[0].type, sent.entities[0].language]
        edited = await bot.edit_message_text("y", chat_id=501, message_id=sent.message_id)
        found["edited"] = [edited.text, edited.edit_date is not None]
        voice = await bot.send_voice(501, BufferedInputFile(b"OggS", "v.ogg"), caption="hear")
        found["voice"] = voice.voice.mime_type
        file = await bot.get_file(voice.voice.file_id)
        found["file"] = (await bot.download_file(file.file_path)).read().decode()
        pictures = [BufferedInputFile(b"\x89PNG" + name, "a.png") for name in (b"1", b"2")]
        first, second = (InputMediaPhoto(media=one) for one in pictures)
        album = await bot.send_media_group(501, [first.model_copy(update={"caption": "both"}), second])
        found["album"] = [len(album), album[0].caption, album[0].media_group_id == album[1].media_group_id]
        try:
            await bot.edit_message_text("y", chat_id=501, message_id=sent.message_id)
        except TelegramBadRequest as error:
            found["unchanged"] = "message is not modified" in str(error)
        found["info"] = (await bot.get_webhook_info()).pending_update_count
    return found


def check_requests(path: str) -> int:
    """Every call that our adapter made, built as the model of its method, which knows each parameter."""
    import aiogram.methods

    methods = {name.lower(): getattr(aiogram.methods, name) for name in aiogram.methods.__all__}
    count = 0
    with open(path) as file:
        for line in file:
            name, asked = json.loads(line)
            model = methods[name]
            unknown = asked.keys() - model.model_fields.keys()
            assert not unknown, f"{name} has no {unknown}"
            model.model_validate(asked)
            count += 1
    return count


def check_updates(path: str) -> int:
    """Every update that our converter is tried on, read as this library's model of one."""
    from aiogram.types import Update

    with open(path) as file:
        return len([Update.model_validate(json.loads(line)).event for line in file])


if __name__ == "__main__":
    which = {"ptb": with_ptb, "aiogram": with_aiogram}[sys.argv[1]]
    print(json.dumps(asyncio.run(which(*sys.argv[2:])), ensure_ascii=True))
