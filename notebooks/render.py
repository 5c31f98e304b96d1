"""Run the notebooks and keep their outputs: python notebooks/render.py [NAME …]

The outputs are small (pictures as PNG, no page of the studio), and the notebook notes a hash of the
source that they belong to, which the tests compare.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent
SECONDS = 1_200  # for a cell: BERT is trained in one
WIDEST = 900  # pixels of a picture
MOST_HTML = 50_000  # characters: a page of the studio is larger, and no forge shows it
TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + r"/\w+/?")


def source_hash(book: Any) -> str:
    """A fingerprint of the code of all cells."""
    code = "\0".join(cell.source for cell in book.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def render(path: Path) -> None:
    """Run a notebook in a kernel of its own, and write it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        book, kernel_name="python3", timeout=SECONDS, resources=where, record_timing=False
    )
    client.execute()
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for output in cell.outputs for each in _kept(output)]
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "source_hash": source_hash(book),
    }
    path.write_text(nbformat.writes(book) + "\n", encoding="utf-8")


def _kept(output: Any) -> list[Any]:
    """The part of an output that a reader sees, without the names of temporary folders."""
    if output.output_type == "stream":
        if output.name == "stderr":
            return []
        output.text = TEMPORARY.sub("", output.text)
    elif output.output_type in ("display_data", "execute_result"):
        data, output.metadata = output.data, {}
        html = data.get("text/html", "")
        best = "image/png" if "image/png" in data else "text/html" if html else "text/plain"
        if best == "text/html" and len(html) > MOST_HTML:
            best = "text/plain"
        small = _small if best == "image/png" else lambda text: TEMPORARY.sub("", text)
        output.data = {best: small(data[best])}
    return [output]


def _small(png: str) -> str:
    """The picture in 128 colours, and no wider than a page."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.thumbnail((WIDEST, WIDEST))
    content = io.BytesIO()
    image.quantize(128).save(content, "png", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


if __name__ == "__main__":
    for path in sorted(HOME.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            render(path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} KB")
