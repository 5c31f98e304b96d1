"""What pip would install is whole."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OFFLINE = """
import socket, sys

def refuse(event, _):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise OSError("no network")

sys.addaudithook(refuse)
try:
    socket.create_connection(("localhost", 80))
except OSError as error:
    print(error)
sys.path.insert(0, sys.argv[1])
import glassformer as gf
assert gf.__file__.startswith(sys.argv[1]), gf.__file__
print(len(gf.load("gf-encoder").fill("The cat sat on the [MASK].")[0].candidates) == 5)
print(len(gf.load("gf-decoder").generate("The cat", max_new_tokens=4)[0].ids) == 4)
print("кот" in gf.load("gf-en-ru").translate("The cat sat on the mat.")[0].text.lower())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    models = (ROOT / "src/glassformer/pretrained").glob("*/**/*")
    sources = [*(ROOT / "src").rglob("*.py"), *(path for path in models if path.is_file())]
    wanted = {str(p.relative_to(ROOT / "src")) for p in sources if "__pycache__" not in p.parts}
    assert wanted <= set(names)
    assert "glassformer/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]


@pytest.mark.slow
def test_the_wheel_runs_from_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    run = subprocess.run(
        [sys.executable, "-I", "-c", OFFLINE, str(tmp_path / "installed")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout.splitlines() == ["no network", "True", "True", "True"], run.stderr
