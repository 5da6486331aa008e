"""README and pages: their code runs, and they need nobody."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress

import pytest
import yaml
from playwright.sync_api import TimeoutError as Late

import larc
from tests.pages import PAGES, ROOT, blocks, check, named, perform

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


# Code -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_of_code_is_one_that_is_tried(page):
    for block in blocks(page):
        if block.language == "console":
            shown = [line for line in block.text.splitlines() if not line.startswith("$ ")]
            assert not shown, f"only commands, each after a dollar sign: {shown}"
        elif block.language == "pycon":
            assert ">>> " in block.text
            assert "+SKIP" not in block.text
        elif block.language in ("python", "yaml", "json", "toml"):
            assert block.mark.startswith("file: "), f"who runs this? {block.text[:80]}"
        else:
            assert block.language in ("", "text"), block.language


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_that_take_long_are_at_least_right(page, capsys):
    for block in blocks(page):
        if block.language == "console" and not block.mark:
            for command in block.commands:
                check(command)


@pytest.mark.parametrize("command", ["larc study tasks --rank four", "larc stduy", "make nothing"])
def test_a_command_that_is_wrong_would_be_noticed(command, capsys):
    with pytest.raises((AssertionError, larc.LarcError)):
        check(command)


RUN = [page for page in PAGES if any(block.mark == "run" for block in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=named)
def test_marked_commands_do_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (tmp_path / block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        for command in block.commands if block.mark == "run" else ():
            perform(command, monkeypatch)
    assert "Traceback" not in capsys.readouterr().err
    for run in tmp_path.glob("runs/*"):
        assert (run / "report.html").is_file()


def test_some_pages_run_commands():
    assert {"docs/tutorial.md", "docs/ci.md", "docs/runs.md"} <= set(map(named, RUN))


# The site ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(directory)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return directory


def test_every_public_name_is_on_the_api_page(site):
    page = (site / "api.html").read_text(encoding="utf-8")
    for name in larc.__all__:
        module = getattr(larc, name).__module__
        assert f'id="larc.{name}"' in page or f'id="{module}.{name}"' in page, name


def test_formulas_are_drawn_and_none_is_left(site):
    page = (site / "mechanism.html").read_text(encoding="utf-8")
    assert page.count("<math") > 50
    assert "arithmatex" not in page
    assert "$$" not in page


def test_pages_name_no_other_host(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]+\.(?:js|css|woff2?)', text), page


@pytest.fixture
def opened(browser):
    """Opens pages from the disk, and in the end refuses complaints and requests to anybody."""
    contexts, wrong = [], []

    def opening(path, **more):
        context = browser.new_context(**{"viewport": DESK, "color_scheme": "light", **more})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda one: one.url.startswith("http") and wrong.append(one.url))
        page.goto(path.as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not wrong


@pytest.mark.parametrize("name", ["index", "tutorial", "mechanism", "results", "record", "api"])
def test_pages_open_from_the_disk_and_fit_a_phone(opened, site, name):
    for viewport in (DESK, PHONE):
        page = opened(site / f"{name}.html", viewport=viewport)
        assert page.locator("h1").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_search_works_without_a_server(opened, site):
    page = opened(site / "index.html")
    result = page.locator(".md-search-result__link").first
    box = page.locator(".md-search__input")
    for patience in range(12):
        # The page listens to keys; what is typed before it does is not heard, and typed again.
        box.fill("")
        box.press_sequentially("gauge")
        with suppress(Late):
            result.wait_for(timeout=2_000 * (patience + 1))
            break
    assert "mechanism.html" in result.get_attribute("href")


def test_dark_is_followed(opened, site):
    def ground(scheme):
        page = opened(site / "index.html", color_scheme=scheme)
        return page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")

    assert ground("light") != ground("dark")


# What stands beside ------------------------------------------------------------------------------


def _project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_of_this_software():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "type"} <= set(told)
    assert (told["version"], told["license"]) == (_project()["version"], _project()["license"])
    (paper,) = told["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Zou", "Donz"]


def test_the_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in text or f"## [{_project()['version']}]" in text


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'src="([^"]+)"', text)
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_alone_says_what_there_is():
    output = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("run", "test", "docs"):
        assert re.search(rf"^make {target} ", output, re.MULTILINE), output
