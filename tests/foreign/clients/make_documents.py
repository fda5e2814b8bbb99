"""Documents as the libraries of other makers write them, into the folder that is named; some are hostile."""

from __future__ import annotations

import datetime
import io
import sys
import zipfile
import zlib
from pathlib import Path

import docx
import openpyxl
import pptx
from odf.opendocument import OpenDocumentSpreadsheet, OpenDocumentText
from odf.table import Table, TableCell, TableRow
from odf.text import H, P
from pypdf import PdfWriter
from reportlab.pdfgen.canvas import Canvas

folder = Path(sys.argv[1])

document = docx.Document()
document.add_heading("Offer", 1)
document.add_paragraph("Two bees")
table = document.add_table(1, 2)
table.cell(0, 0).text, table.cell(0, 1).text = "Queen", "7"
document.save(str(folder / "offer.docx"))

talk = pptx.Presentation()
for words in ("Bees", "Wasps"):
    talk.slides.add_slide(talk.slide_layouts[5]).shapes.title.text = words
talk.save(str(folder / "talk.pptx"))

book = openpyxl.Workbook()
book.active.title = "Hives"
book.active.append(["Queen", datetime.date(2026, 11, 18), 7.5, True])
book.create_sheet("Second").append(["more"])
book.save(folder / "book.xlsx")

letter = OpenDocumentText()
letter.text.addElement(H(outlinelevel=1, text="Dear"))
letter.text.addElement(P(text="Two bees"))
letter.save(str(folder / "letter.odt"))

sheet = OpenDocumentSpreadsheet()
rows = Table(name="Hives")
row = TableRow()
for value in ("Queen", "7"):
    cell = TableCell()
    cell.addElement(P(text=value))
    row.addElement(cell)
rows.addElement(row)
sheet.spreadsheet.addElement(rows)
sheet.save(str(folder / "sheet.ods"))


def printed(pages: list[str]) -> bytes:
    held = io.BytesIO()
    canvas = Canvas(held)
    for words in pages:
        canvas.drawString(72, 700, words)
        canvas.showPage()
    canvas.save()
    return held.getvalue()


(folder / "print.pdf").write_bytes(printed(["Bees on paper", "Wasps on paper"]))
(folder / "long.pdf").write_bytes(printed([f"Page {number} of very many" for number in range(1000)]))
(folder / "pictures.pdf").write_bytes(printed([""]))
locked = PdfWriter(io.BytesIO(printed(["secret"])))
locked.encrypt("sesame", algorithm="RC4-128")
locked.write(folder / "locked.pdf")


def pdf(objects: dict[int, bytes]) -> bytes:
    """Without a table of places, which readers make themselves."""
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, text) for number, text in objects.items())
    return b"%PDF-1.7\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF"


loop = {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"}
(folder / "loop.pdf").write_bytes(pdf(loop))
packed = zlib.compress(b" " * 900_000_000)
stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
bomb = {
    1: b"<< /Type /Catalog /Pages 2 0 R >>",
    2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    3: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << >> >>",
    4: stream,
}
(folder / "bomb.pdf").write_bytes(pdf(bomb))
with (
    zipfile.ZipFile(folder / "book.xlsx") as source,
    zipfile.ZipFile(folder / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as bombed,
):
    for name in source.namelist():
        bombed.writestr(name, source.read(name))
    bombed.writestr("xl/media/zeros.bin", bytes(210_000_000))
