"""Completion, as bash does it: the script is sourced and its function called as for a Tab."""

import subprocess
import sys

import pytest

from larc.cli import main
from larc.studies.registry import STUDIES

# What bash sets before it calls the function that `complete` names for a command.
TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
function=$(complete -p larc | sed -E 's/.*-F ([^ ]+).*/\\1/')
"$function" larc "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "larc.bash"
    code = (
        "import sys; from larc.cli import main; status = main(['completion', 'bash'])\n"
        "assert not {'torch', 'transformers', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(status)"
    )
    with path.open("w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    return path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["stu"], {"study"}),
        (["study", ""], {*STUDIES, "final"}),
        (["study", "progr"], {"programs"}),
        (["study", "programs", "--preset", ""], {"paper", "quick", "smoke"}),
        (["study", "programs", "--preset", "quick", "--boun"], {"--boundary"}),
        (["study", "programs", "--engine", ""], {"local", "ray"}),
        (["ci", ""], {"baseline", "fetch"}),
        (["export", "--to", ""], {"peft", "merged"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes_commands_options_and_values(script, typed, offered):
    line = ["bash", "--norc", "-c", TAB, "bash", str(script), "larc", *typed]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) >= offered
    if typed[-1]:
        assert set(done.stdout.split()) == offered


def test_bash_completes_files_where_a_file_is_wanted(script, tmp_path):
    (tmp_path / "state.safetensors").touch()
    line = ["bash", "--norc", "-c", TAB, "bash", str(script), "larc", "export", f"{tmp_path}/sta"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "state.safetensors")]


@pytest.mark.parametrize(("shell", "opening"), [("zsh", "#compdef larc"), ("fish", "#")])
def test_other_shells_get_a_script_too(shell, opening, capsys):
    assert main(["completion", shell]) == 0
    output = capsys.readouterr().out
    assert output.startswith(opening)
    assert "programs" in output
