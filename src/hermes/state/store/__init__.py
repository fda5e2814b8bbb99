"""The database: one writer, several readers, the tables and their care."""
