"""What pip would install is whole."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_builds_and_runs_from_itself(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src/glassformer/pretrained").glob("*/*")]
    wanted = {str(p.relative_to(ROOT / "src")) for p in sources if "__pycache__" not in p.parts}
    assert wanted <= set(names)
    assert "glassformer/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    code = (
        f"import sys; sys.path.insert(0, {str(wheel)!r}); import glassformer as gf;"
        "assert '.whl' in gf.__file__, gf.__file__; print(gf.load.__module__, gf.__version__)"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert run.stdout.startswith("glassformer.loaded "), run.stderr
