"""The registry's package of the same import name: noticed before it does harm."""

import pytest

from larc.cli import main
from larc.cli.command_line import check_distribution
from larc.errors import LarcError

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
