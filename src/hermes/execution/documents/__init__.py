"""Texts out of documents: pages, PDFs, office files, notebooks."""
