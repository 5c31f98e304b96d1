"""Can the watcher see what the other tests say does not happen? Each thing, done on purpose."""

from pathlib import Path

import pytest

from gate.attacks import pickled
from gate.harness import MOST_MB, WORK, Harness

DEEDS = {
    "unpickle": "pickle.find_class", "exec": "exec", "import": "import", "socket": "socket",
    "process": "subprocess.Popen", "read": "open '/etc/hostname'", "write": "open", "remove": "os.",
}  # fmt: skip


@pytest.mark.parametrize("how", DEEDS)
def test_a_deed_is_seen(how: str, harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    canary = tmp_path / "canary"
    pickled("pytorch_model.bin")(tmp_path / "model", canary)
    (tmp_path / "model" / "canary").write_text("there")
    verdict = harness.run("misbehave", folder=str(tmp_path / "model"), how=how)
    assert any(deed.startswith(DEEDS[how]) for deed in verdict.deeds), verdict
    assert canary.exists() == (how == "unpickle")


def test_how_a_case_ends_is_seen(harness: Harness, tmp_path: Path) -> None:
    def end(how: str) -> tuple[str, str]:
        verdict = harness.run("misbehave", hangs=2, folder=str(tmp_path), how=how)
        return verdict.end, verdict.line.strip().split("\n")[-1]

    assert end("raise") == ("raised", "KeyError: 'raise'")
    assert end("abort") == ("killed", "SIGABRT []")
    assert end("exit") == ("killed", "3 []")
    assert end("hang") == ("killed", "SIGALRM []")


def test_what_a_case_costs_is_seen(harness: Harness, tmp_path: Path) -> None:
    def cost(how: str) -> tuple[bool, bool, str]:
        verdict = harness.run("misbehave", folder=str(tmp_path), how=how)
        return verdict.seconds > WORK, verdict.mb > MOST_MB, verdict.noise

    assert cost("work") == (True, False, "")
    assert cost("take memory") == (False, True, "")
    assert cost("print") == (False, False, "hello\n")
