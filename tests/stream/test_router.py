"""The ticket router of the page on live streams, each command in a process of its own."""

import shlex
import subprocess
import sys

from tests.pages import ROOT, blocks


def test_the_page_s_router_in_processes_of_its_own(tmp_path):
    page = blocks(ROOT / "docs" / "live.md")
    (program,) = [block for block in page if block.mark == "file: router.py"]
    (commands,) = [block for block in page if block.mark == "run"]
    assert len([line for line in program.text.splitlines() if line]) == 20
    (tmp_path / "router.py").write_text(program.text)
    told = []
    for command in commands.commands:
        done = subprocess.run(
            [sys.executable, *shlex.split(command)[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        told.append(done.stdout.strip())
    assert told[0] in ("billing", "hardware", "network")
    assert told[1].startswith("{'keep': Update(")
    assert told[2:] == [
        "DuplicateLabel",
        "NeverAsked",
        "NotACandidate",
        "Correction(name='17', before=2, after=0, relearned=1)",
    ]
