"""Files that go out: their bytes and their names."""

from __future__ import annotations

from hermes.domain.adapter import AdapterContext
from hermes.domain.errors import Refused, UserError
from hermes.domain.message import Attachment

ANY_MIME = "application/octet-stream"


def file_name(file: Attachment) -> str:
    """The name of a file; one that has none gets the ending of its kind."""
    return file.name or f"file.{(file.mime or 'application/bin').rpartition('/')[2]}"


async def read_file(context: AdapterContext, file: Attachment) -> bytes:
    """The bytes of a file; a `Refused` if it is gone, for it does not come back."""
    try:
        return await context.open_file(file)
    except UserError as error:
        raise Refused(str(error)) from error
