"""Two clients of Discord that we did not write use a server as they would use Discord's; what they saw is
printed as JSON. Which one, the server's addresses, the token and the channels are the arguments."""

from __future__ import annotations

import asyncio
import json
import sys


async def until(done: asyncio.Event, found: dict[str, object]) -> None:
    try:
        await asyncio.wait_for(done.wait(), 300)
    except TimeoutError:
        raise SystemExit(f"it never came to an end: {found}") from None


async def with_discord_py(url: str, gateway: str, token: str, direct: str, general: str) -> dict[str, object]:
    import io

    import discord
    import yarl

    discord.http.Route.BASE = url
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)
    seen: list[str] = []
    fetched: list[str] = []
    found: dict[str, object] = {"seen": seen, "fetched": fetched}
    done = asyncio.Event()
    intents = discord.Intents.default()
    intents.message_content = True

    class Client(discord.Client):
        async def on_message(self, message) -> None:
            if message.author == self.user:
                return
            private = isinstance(message.channel, discord.DMChannel)
            thread = isinstance(message.channel, discord.Thread)
            kind = "private" if private else "thread" if thread else "channel"
            seen.append(f"{kind} {message.author.display_name} {message.clean_content}")
            for file in message.attachments:
                fetched.append(f"{(await file.read()).hex()[:8]} voice={file.is_voice_message()}")
            if message.content == "hello":
                view = discord.ui.View(timeout=None)
                view.add_item(discord.ui.Button(label="Yes", custom_id="q_1:yes"))
                async with message.channel.typing():
                    sent = await message.reply("May I?", view=view, nonce="n1")
                found["sent"] = [
                    sent.content,
                    sent.type.name,
                    str(sent.nonce),
                    sent.components[0].children[0].label,
                ]
                found["edited"] = (await sent.edit(content="May I not?")).content
                await sent.add_reaction("👍")

        async def on_message_edit(self, before, after) -> None:
            if after.author != self.user:
                seen.append(f"edited {after.content}")

        async def on_interaction(self, interaction) -> None:
            if interaction.type is discord.InteractionType.component:
                seen.append(f"pressed {interaction.data['custom_id']} {interaction.message.content}")
                await interaction.response.defer()
            else:
                seen.append(f"command {interaction.data['name']} {interaction.data['options'][0]['value']}")
                await interaction.response.send_message("✓", ephemeral=True)
                done.set()

    client = Client(intents=intents)
    await client.login(token)
    running = asyncio.create_task(client.connect(reconnect=True))
    await until(done, found)
    found["me"] = client.user.name
    found["guild"] = [
        client.guilds[0].name,
        client.guilds[0].channels[0].name,
        client.guilds[0].threads[0].name,
    ]
    channel = client.get_channel(int(general))
    file = await channel.send("look", file=discord.File(io.BytesIO(b"abc"), "a.txt"))
    found["file"] = [file.attachments[0].filename, (await file.attachments[0].read()).decode()]
    thread = await channel.create_thread(name="Plans", type=discord.ChannelType.public_thread)
    found["thread"] = [thread.name, str(thread.parent_id) == general]
    begun = await file.create_thread(name="From a message")
    found["begun"] = [begun.name, begun.id == file.id, (await begun.send("in it")).channel.id == file.id]
    found["history"] = [
        one.content async for one in channel.history(limit=5, oldest_first=True, after=discord.Object(1))
    ]
    await file.delete()
    errors = []
    for text, where in (
        ("x" * 2001, channel),
        ("x", client.get_partial_messageable(666)),
        ("x", client.get_partial_messageable(1)),
    ):
        try:
            await where.send(text)
        except discord.HTTPException as error:
            errors.append([type(error).__name__, error.status, error.code])
    found["errors"] = errors
    await client.close()
    await asyncio.wait((running,))
    wrong = Client(intents=intents)
    try:
        await wrong.login(token[:-3] + "xxx")
    except discord.LoginFailure as error:
        found["wrong token"] = type(error).__name__
    await wrong.close()
    return found


async def with_hikari(url: str, gateway: str, token: str, direct: str, general: str) -> dict[str, object]:
    import hikari

    seen: list[str] = []
    fetched: list[str] = []
    found: dict[str, object] = {"seen": seen, "fetched": fetched}
    done = asyncio.Event()
    intents = hikari.Intents.ALL_UNPRIVILEGED | hikari.Intents.MESSAGE_CONTENT
    bot = hikari.GatewayBot(token, rest_url=url, intents=intents, banner=None, logs=None)

    @bot.listen(hikari.MessageCreateEvent)
    async def on_message(event) -> None:
        if event.is_bot:
            return
        kind = "private" if isinstance(event, hikari.DMMessageCreateEvent) else "channel"
        seen.append(f"{kind} {event.author.username} {event.content}")
        for file in event.message.attachments:
            fetched.append(f"{(await file.read()).hex()[:8]} {file.media_type}")
        if event.content == "hello":
            row = bot.rest.build_message_action_row()
            row.add_interactive_button(hikari.ButtonStyle.SECONDARY, "q_1:yes", label="Yes")
            sent = await event.message.respond("May I?", component=row, reply=True)
            found["sent"] = [
                sent.content,
                sent.components[0].components[0].label,
                sent.referenced_message.content,
            ]
            found["edited"] = (await sent.edit("May I not?")).content

    @bot.listen(hikari.MessageUpdateEvent)
    async def on_edit(event) -> None:
        if not event.is_bot:
            seen.append(f"edited {event.content}")

    @bot.listen(hikari.InteractionCreateEvent)
    async def on_interaction(event) -> None:
        one = event.interaction
        if isinstance(one, hikari.ComponentInteraction):
            seen.append(f"pressed {one.custom_id} {one.message.content}")
            await one.create_initial_response(hikari.ResponseType.DEFERRED_MESSAGE_UPDATE)
        else:
            seen.append(f"command {one.command_name} {one.options[0].value}")
            await one.create_initial_response(hikari.ResponseType.MESSAGE_CREATE, "✓", flags=64)
            done.set()

    @bot.listen(hikari.GuildAvailableEvent)
    async def on_guild(event) -> None:
        found["guild"] = [event.guild.name, len(event.channels), len(event.threads)]

    await bot.start(check_for_updates=False)
    await until(done, found)
    found["me"] = bot.get_me().username
    file = await bot.rest.create_message(int(general), "look", attachment=hikari.Bytes(b"abc", "a.txt"))
    found["file"] = [file.attachments[0].filename, (await file.attachments[0].read()).decode()]
    thread = await bot.rest.create_thread(int(general), hikari.ChannelType.GUILD_PUBLIC_THREAD, "Plans")
    found["thread"] = thread.name
    begun = await bot.rest.create_message_thread(int(general), file.id, "From a message")
    found["begun"] = [begun.name, begun.id == file.id, (await begun.send("in it")).channel_id == file.id]
    app = await bot.rest.fetch_application()
    command = bot.rest.slash_command_builder("status", "how it is")
    command.add_option(hikari.CommandOption(type=3, name="text", description="what", is_required=False))
    found["commands"] = [one.name for one in await bot.rest.set_application_commands(app, [command])]
    errors = []
    for text, where in (("x" * 2001, int(general)), ("x", 666), ("x", 1)):
        try:
            await bot.rest.create_message(where, text)
        except hikari.ClientHTTPResponseError as error:
            errors.append([type(error).__name__, int(error.status)])
    found["errors"] = errors
    await bot.close()
    return found


if __name__ == "__main__":
    which, *rest = sys.argv[1:]
    run = {"discord.py": with_discord_py, "hikari": with_hikari}[which]
    print(json.dumps(asyncio.run(run(*rest))))
