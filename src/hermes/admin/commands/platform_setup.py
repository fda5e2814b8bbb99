"""`hermes platforms setup`: asks what the manifest says must be known, tries it at the platform itself, and
only then writes it down. Whoever leaves in between has changed nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from hermes.admin.commands.platform_packages import install_extra, is_installed, packages_of
from hermes.admin.commands.platforms import findings_of, log_in_by_hand, tell_findings
from hermes.admin.process.home_files import GATEWAY, home_holder
from hermes.admin.shell.command import CliCommand
from hermes.app.accounts import DeclaredAccount
from hermes.domain.chats.capabilities import SettingField
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import load_settings
from hermes.state.settings.names import PlatformNames
from hermes.state.settings.secrets import looks_like_placeholder

_NEEDS_CODE = "leave empty to approve people by pairing code"
_NOBODY = "empty: nobody"
_EVERYBODY = "*"


class SetupWizard:
    """One account, asked about at one terminal; `_answers` are not written yet."""

    def __init__(self, command: CliCommand, declared: DeclaredAccount) -> None:
        self._declared = declared
        self._manifest = declared.manifest
        self._home = command.home
        self._environ = command.environ
        self._console = command.console
        self._answers: dict[str, str] = {}

    def run(self, *, everything: bool) -> int:
        if not self._console.interactive:
            raise UserError("There is no terminal to ask questions in.", hint=self._commands())
        title = self._declared.title
        self._console.strong(title)
        self._console.line(f"Step by step: {self._manifest.docs}. Ctrl-C leaves everything as it was.")
        self._install_packages()
        logged_in = False
        while True:
            for field in () if logged_in else self._fields(everything):
                self._ask(field)
            self._console.line(f"\nAsking {title} …")
            findings = asyncio.run(findings_of(self._now(), self._home))
            if tell_findings(findings, self._console):
                break
            # Hidden: whoever pastes the right token here at once must not see it on the screen.
            login = "“login” to log in by hand, or " if self._manifest.login else ""
            again = self._console.ask(
                f"\nPress Enter to enter it again, or type {login}“keep” (it is not shown) to save it "
                "unchecked:",
                secret=True,
            )
            if again.lower() == "keep":
                break
            if logged_in := bool(login) and again.lower() == "login":
                kept = log_in_by_hand(self._now(), self._home, self._console)
                self._answers |= {self._declared.variable(name): value for name, value in kept.items()}
        people = self._people()
        self._write(people)
        return 0

    def run_unasked(self, *, check: bool) -> None:
        """From the environment alone: tried, then written."""
        extra = self._manifest.extra
        if extra is not None and not extra.purpose and not is_installed(extra):
            install_extra(extra, self._manifest.name, self._console)
        for field in self._fields(True):
            variable = self._declared.variable(field.env)
            if value := self._environ.get(variable):
                self._answers[variable] = value
        missing = [
            self._declared.variable(field.env)
            for field in self._manifest.settings
            if field.required and not self._now().find(field.env)
        ]
        if missing:
            hint = "; ".join(f"export {name}=…" for name in missing)
            raise UserError(f"{self._declared.title} lacks {', '.join(missing)}.", hint=hint)
        findings = asyncio.run(findings_of(self._now(), self._home)) if check else []
        bad = next((one for one in findings if not one.good), None)
        if bad is not None:
            raise UserError(f"{bad.text} Nothing was changed.", hint=bad.hint)
        self._write("")

    def _install_packages(self) -> None:
        """Before anything is asked, so that nobody answers for nothing."""
        extra = self._manifest.extra
        if extra is None or is_installed(extra):
            return
        packages = ", ".join(packages_of(extra))
        what = f" for {extra.purpose}" if extra.purpose else ""
        self._console.line()
        self._console.words(f"{self._declared.title} needs further packages{what}: {packages}.")
        if self._console.ask("Install them now? [Y/n]").lower() in ("", "y", "yes"):
            install_extra(extra, self._manifest.name, self._console)
        elif not extra.purpose:
            raise UserError(f"{self._declared.title} cannot be used without them. Nothing was changed.")

    def _fields(self, everything: bool) -> Iterator[SettingField]:
        """What is to be asked; one answer may make a later question needless."""
        for field in self._manifest.settings:
            if field.unless and self._now().find(field.unless):
                continue
            if everything or field.required or field.asked or field.unless:
                yield field

    def _ask(self, field: SettingField) -> None:
        known, variable = self._now().find(field.env), self._declared.variable(field.env)
        need = "Enter keeps the value" if known else "" if field.required else "Enter leaves it out"
        self._console.line()
        self._console.words(f"{field.title}. {field.hint}".rstrip())
        while True:
            answer = self._console.ask(f"{variable}{f' ({need})' if need else ''}:", secret=field.secret)
            if answer and looks_like_placeholder(answer):
                self._console.line("That is a placeholder; enter the real value.")
            elif answer and field.choices and answer.lower() not in field.choices:
                # Not repeated: it may be a password that was meant for the next question.
                *others, last = field.choices
                self._console.line(f"It can only be {', '.join(others)} or {last}.")
            elif answer:
                self._answers[variable] = answer
                return
            elif need:
                return
            else:
                self._console.line(f"{self._declared.title} cannot be used without it.")

    def _people(self) -> str:
        """Who may write to it, if nobody has said so yet."""
        block = self._now().block
        if block.allowed_users or block.allow_all_users or self._manifest.capabilities.knows_people:
            return ""
        told = _NEEDS_CODE if self._manifest.capabilities.answers_strangers else _NOBODY
        kind, fits = self._manifest.people or "ids", re.compile(self._manifest.person or r".+")
        self._console.line()
        self._console.words(f"Who may write to it, several with commas ({told}): {kind}.")
        while True:
            people = self._console.ask("Allowed:")
            named = [one.strip() for one in people.split(",")]
            strange = [one for one in named if one not in ("", _EVERYBODY) and not fits.fullmatch(one)]
            if not strange:
                return people
            shown = one_line(self._now().loaded.secrets.redact(strange[0]), 40)
            self._console.words(f"{self._declared.title} calls nobody “{shown}”.")

    def _write(self, people: str) -> None:
        prepare_home(self._home)
        platforms = PlatformNames.of([self._manifest])
        platforms = replace(platforms, variables=(*platforms.variables, *self._answers))
        for variable, value in self._answers.items():
            set_setting(self._home, variable, value, platforms)
        if people:
            set_setting(self._home, f"platforms.{self._declared.name}.allowed_users", people, platforms)
        self._console.line(f"\n{self._declared.title} is set up. Its secrets are in {self._home / '.env'}.")
        overruled = [name for name, value in self._answers.items() if self._environ.get(name, value) != value]
        for name in overruled:
            self._console.line(f"{name} is also set in the environment, which takes effect.")
        holder = home_holder(self._home)
        running = holder is not None and holder.what == GATEWAY
        self._console.line(self._console.spell(f"Next: hermes gateway {'restart' if running else 'run'}"))

    def _now(self) -> DeclaredAccount:
        """The account as it would be, with what was answered."""
        around = {**self._environ, **self._answers}
        loaded = load_settings(self._home, around, platforms=[self._manifest.name])
        return replace(self._declared, loaded=loaded)

    def _commands(self) -> str:
        wanted = [self._declared.variable(field.env) for field in self._manifest.settings if field.required]
        commands = [f"hermes config set {name} …" for name in wanted]
        return "; ".join([*commands, f"hermes platforms test {self._declared.name}"])
