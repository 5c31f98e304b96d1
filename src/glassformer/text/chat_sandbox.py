"""Run a chat template that the user has handed over, in jinja2's immutable sandbox.

The sandbox has no access to the attributes and functions of Python; the process around it has an
empty environment and limits on time, memory and output, and is killed if it does not end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import InputError, check_installed, printable
from glassformer.safe_files import read
from glassformer.text import jinja_child
from glassformer.text.chat import Message, check_messages

WAIT = 25.0  # seconds in all; a busy machine may need some to start the process
MAX_TEMPLATE = 1 << 20  # characters


def read_template(path: Path) -> str:
    """The template in a file; InputError if there is none."""
    data = read(path.parent, path.name, MAX_TEMPLATE)
    if data is None:
        raise InputError(f"{path}: no such file: write the path of a Jinja template")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is not text in UTF-8: write a Jinja template") from None


def render_template(
    template: str, messages: Sequence[Message], bos: str = "", eos: str = ""
) -> str:
    """The text of a chat up to where the model's answer begins; InputError says what is wrong."""
    check_installed("a chat template of your own", "chat", "jinja2")
    check_messages(messages)
    if not isinstance(template, str) or not template.strip() or len(template) > MAX_TEMPLATE:
        raise InputError(f"template: write a Jinja template of at most {MAX_TEMPLATE:,} characters")
    request = {
        "template": template, "messages": [dict(message) for message in messages],
        "add_generation_prompt": True, "bos_token": bos, "eos_token": eos,
    }  # fmt: skip
    needed = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    command = [sys.executable, "-I", str(Path(jinja_child.__file__))]
    try:
        child = subprocess.run(  # noqa: S603 - our own file
            command, input=json.dumps(request).encode(), capture_output=True, env=needed,
            timeout=WAIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(f"template: it did not end within {WAIT:.0f} seconds") from None
    if child.returncode:
        raise InputError(
            f"template: it was stopped: it needs more than {jinja_child.SECONDS} seconds, or more "
            f"than {jinja_child.MEMORY >> 20} MB of memory"
        )
    result = json.loads(child.stdout)
    if "error" in result:
        raise InputError(f"template: {printable(' '.join(result['error'].split()))}")
    return str(result["text"])
