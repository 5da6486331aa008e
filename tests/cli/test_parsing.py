"""The command line: what it says of itself, and what it says of a wrong one."""

import json
import subprocess
import sys

import pytest

from larc.cli import main


def test_help_fits_a_screen_and_says_a_sentence_for_each_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    start = lines.index("commands:") + 1
    commands = lines[start : lines.index("", start)]
    assert len(commands) >= 10
    for line in commands:
        name, sentence = line.split(maxsplit=1)
        assert name.islower()
        assert sentence[0].isupper()
        assert sentence.endswith(".")
    for code in ("0 done", "1 refused", "2 wrong", "130 stopped"):
        assert code in " ".join(lines[-2:])


def test_no_command_shows_the_help_and_is_a_wrong_command_line(capsys):
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("stduy", 2, "there is no command 'stduy'; did you mean 'study'?"),
        ("study programz", 2, "there is no study 'programz'; did you mean 'programs'?"),
        ("ci fech", 2, "there is no part 'fech'; did you mean 'fetch'?"),
        ("study programs --preset qick", 2, "--preset got 'qick'; did you mean 'quick'?"),
        ("study programs --bondary 1", 2, "no option --bondary; did you mean '--boundary'?"),
        ("study ci --jbos=a", 2, "there is no option --jbos; did you mean '--jobs'?"),
        ("adapter --updaets 3", 2, "there is no option --updaets; did you mean '--updates'?"),
        ("export x --to pefft --out y", 2, "--to got 'pefft'; did you mean 'peft'?"),
        ("completion bahs", 2, "there is no shell 'bahs'; did you mean 'bash'?"),
        ("demo --substrat tiny", 2, "there is no option --substrat; did you mean '--substrate'?"),
        ("verify", 2, "required: RUN; see `larc verify --help`."),
        ("verify a b", 2, "'b' is more than this command takes; see `larc verify --help`."),
        ("study programs --rank", 2, "--rank: expected one argument; see `larc study programs"),
        ("study programs --rank four", 1, "'rank' got 'four'; it takes a whole number, 1 or more."),
        ("study programs --boundary -1", 1, "'boundary' got '-1'; it takes a whole number, 0 or"),
        ("study programs --seeds 1,-2", 1, "each a whole number, 0 or more."),
        ("study programs --seeds 1,1", 1, "seeds [1, 1] were given; give one or more, each once."),
        ("study programs --threads 0", 1, "'threads' got '0'; it takes a whole number, 1 or more"),
        ("study programs --workers 0", 1, "'workers' got '0'; it takes a whole number, 1 or more."),
        ("study programs --engine rya", 1, "'engine' got 'rya'; it takes one of local, ray."),
        ("study programs --sweep bondary=1", 1, "'bondary' to vary; did you mean 'boundary'?"),
        ("adapter --batch 0", 1, "setting 'batch' got '0'; it takes a whole number, 1 or more."),
        ("report nowhere", 1, "nowhere"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_what_is_nearest(
    line, code, sentence, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == code
    message = capsys.readouterr().err
    assert message.startswith("larc: ")
    assert sentence in message
    assert message.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("bondary: 1", "there is no setting 'bondary'; did you mean 'boundary'?"),
        ("rank: four", "setting 'rank' got 'four'; it takes a whole number, 1 or more."),
        ("boundary: -1", "setting 'boundary' got -1; it takes a whole number, 0 or more."),
        ("seeds: []", "seeds [] were given; give one or more, each once."),
        ("- rank", "holds no settings"),
    ],
)
def test_a_file_of_settings_is_refused_as_the_command_line_is(content, sentence, capsys, tmp_path):
    (tmp_path / "settings.yaml").write_text(content)
    line = ["study", "programs", "--config", str(tmp_path / "settings.yaml")]
    assert main([*line, "--out", str(tmp_path / "run")]) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_setting_that_only_the_model_can_refuse_leaves_no_run_behind(capsys, tmp_path):
    line = ["study", "programs", "--preset", "smoke", "--out", str(tmp_path / "run")]
    assert main([*line, "--boundary", "9"]) == 1
    assert "tiny has boundaries 0" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    assert main([*line[:-1], str(tmp_path / "mine"), "--sweep", "boundary=9,8"]) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]  # an empty place stays, and empty
    assert not list((tmp_path / "mine").iterdir())


def test_machines_get_json(capsys, tmp_path):
    line = "study programs --preset smoke --seeds 7 --updates 1 --objectives adapted --resamples 50"
    groups = "--training-groups 1 --development-groups 1 --json --out"
    run = str(tmp_path / "run")
    assert main([*line.split(), *groups.split(), run]) == 0
    first = capsys.readouterr().out
    answer = json.loads(first.splitlines()[-1])
    assert answer["run"] == run
    assert answer["report"] == f"{run}/report.html"
    assert "expected query error" in answer["answer"]
    rows = {row["Contrast"]: row for row in answer["tables"]["contrasts"]}
    assert {"Adapted G", "Adapted D", "Untrained G"} <= set(rows)
    assert isinstance(rows["Adapted G"]["Mean"], float)
    # A finished study and its report say the same.
    assert main([*line.split(), *groups.split(), run]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == answer
    assert main(["report", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer


def test_a_reader_that_has_read_enough_is_no_failure():
    code = "import sys; from larc.cli import main; sys.exit(main(['completion', 'bash']))"
    # The reader is gone before Python has started: the first write meets a broken pipe.
    reader = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f'"{sys.executable}" -c "{code}" | true'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert reader.returncode == 0
    assert "Traceback" not in reader.stderr
