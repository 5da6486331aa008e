"""What is installed: the wheel, by itself, and the registry's package of the same import name."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from larc.cli import main
from larc.cli.command_line import check_distribution
from larc.errors import LarcError

ROOT = Path(__file__).parents[2]
OURS = "Learning from feedback inside a frozen language model."


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return what installs a distribution: its metadata, in a directory that is searched first."""

    def install(name: str, version: str, summary: str | None) -> None:
        directory = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        directory.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [] if summary is None else [f"Summary: {summary}"]
        (directory / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.mark.parametrize("summary", ["Something about arcs.", None])
def test_another_project_of_our_name_is_refused(installed, capsys, summary):
    installed("larc", "3.1", summary)
    assert main(["completion", "bash"]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err == (
        "larc: the package `larc` of the registry is another project and is installed too; run "
        "`pip uninstall larc` and `pip install --force-reinstall larc-lm`.\n"
    )


def test_help_is_given_all_the_same(installed, capsys):
    installed("larc", "3.1", "Something about arcs.")
    assert main(["--help"]) == 0
    assert "commands:" in capsys.readouterr().out


def test_our_own_first_version_is_no_other_project(installed):
    installed("larc", "0.1.0", OURS)
    check_distribution()


def test_a_name_that_only_begins_like_ours_is_nothing_to_us(installed):
    installed("larc-tools", "1.0", "Something about arcs.")
    check_distribution()


def test_the_check_can_fail(installed):
    installed("larc", "0.1.0", "Something about arcs.")
    with pytest.raises(LarcError, match="pip uninstall larc"):
        check_distribution()


def done(*command: object, **options):
    finished = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=500, check=False, **options
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the wheel, built from the source distribution as an installer would."""
    out = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=ROOT)
    (source,) = out.glob("*.tar.gz")
    done("tar", "xf", source, "-C", out)
    (unpacked,) = (path for path in out.iterdir() if path.is_dir())
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=unpacked)
    (wheel,) = out.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_package_whole_and_nothing_else(built):
    tracked = done("git", "ls-files", "larc", cwd=ROOT).splitlines()
    inside = {name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
    assert inside >= set(tracked)
    assert all(name.startswith("larc/") for name in inside)


def test_installed_from_the_wheel_it_works_without_the_checkout(built, tmp_path):
    """In an environment that has the packages it needs, and of this project the wheel alone."""
    done(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
    python = tmp_path / "env/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    done(*pip, "--no-deps", "--no-index", built)
    (site,) = (tmp_path / "env/lib").glob("*/site-packages")
    # A path alone: what an editable install left there is not followed.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    larc, where = tmp_path / "env/bin/larc", {"cwd": tmp_path, "env": quiet}
    assert done(larc, "--version", **where) == f"larc {version('larc-lm')}\n"
    program = "import json, larc; print(json.dumps([larc.__file__, list(larc.__all__)]))"
    file, names = json.loads(done(python, "-c", program, **where))
    assert Path(file).is_relative_to(tmp_path)
    assert "Learner" in names
    lines = re.findall(r"^(?:>>>|\.\.\.) (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    done(python, "-c", "\n".join(lines), **where)
    report = done(larc, "study", "streams", "--help", **where)
    assert "--preset" in report


@pytest.mark.network
@pytest.mark.skipif(not os.environ.get("LARC_NETWORK"), reason="installs all; set LARC_NETWORK=1")
def test_installed_from_the_wheel_into_an_empty_environment(built, tmp_path):
    done(sys.executable, "-m", "venv", tmp_path / "env")
    pip = (tmp_path / "env/bin/python", "-m", "pip", "install", "--quiet")
    pip = (*pip, "--constraint", ROOT / "constraints.txt")
    done(*pip, "torch")
    done(*pip, f"{built}[studies]")
    larc = tmp_path / "env/bin/larc"
    assert done(larc, "--version", cwd=tmp_path) == f"larc {version('larc-lm')}\n"
    done(larc, "study", "programs", "--preset", "smoke", "--out", tmp_path / "run", cwd=tmp_path)
    assert "as the manifest says" in done(larc, "verify", tmp_path / "run", cwd=tmp_path)
