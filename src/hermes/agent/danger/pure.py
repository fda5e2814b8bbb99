"""The allow-lists of inline code (`pure.txt`): what only computes and prints. Whatever is not listed is asked
for."""

from __future__ import annotations

from hermes.agent.danger.names import by_name, listed
from hermes.agent.danger.tables import by_key, read_sections

_TABLES = {
    section: {name: listed(words) for name, words in by_name(by_key(rows)).items()}
    if section in ("python modules", "other languages")
    else {name: listed(words) for name, words in by_key(rows).items()}
    for section, rows in read_sections("pure.txt").items()
}
PYTHON_MODULES = _TABLES["python modules"]
OWN_FACTS = _TABLES["python"]["own facts"]
PYTHON_BUILTINS = _TABLES["python"]["builtins"]
PYTHON_METHODS = _TABLES["python"]["methods"]
PYTHON_NEVER = _TABLES["python"]["never"]
FOREIGN_NEVER = _TABLES["python"]["foreign never"]
PYTHON_RUNS = _TABLES["python"]["runs"]
SCRIPT_WORDS = _TABLES["other languages"]
SCRIPT_NEVER = _TABLES["all languages"]["never"]
AWK_CALLS = _TABLES["all languages"]["awk calls"]
