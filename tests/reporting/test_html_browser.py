"""Report pages in a real browser, as a person on a desk or with a phone has them."""

import re
from pathlib import Path

import pytest

from larc.reporting.page import page as report_page
from larc.reporting.writing import PAGE
from larc.runs.run import Run
from larc.studies.reports import reported
from tests.browser import PATIENCE

PUBLISHED = sorted((Path(__file__).parents[2] / "results").glob("*.larc"))
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def everything(tmp_path_factory, report, facts):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page(report, facts), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser):
    """Opens pages, and in the end refuses any complaint and any request but for the page."""
    contexts, wrong = [], []

    def opening(path, **more):
        context = browser.new_context(**{"viewport": DESK, "color_scheme": "light", **more})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        asked = []
        page.goto(path.as_uri())
        wrong.extend(url for url in asked if url != path.as_uri() and not url.startswith("data:"))
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not wrong


def _everything_open(page):
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")


def _colour(page, selector, name):
    return page.locator(selector).first.evaluate(f"one => getComputedStyle(one).{name}")


@pytest.mark.parametrize("archive", PUBLISHED, ids=lambda archive: archive.stem)
def test_published_pages_render_on_desk_and_phone(opened, archive, tmp_path):
    path = tmp_path / PAGE
    path.write_bytes(reported(Run(archive)).documents()[PAGE])
    for viewport in (DESK, PHONE):
        page = opened(path, viewport=viewport)
        assert page.locator(".answer").is_visible()
        _everything_open(page)
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_never_scrolls_sideways_but_wide_tables_do(opened, everything, width):
    page = opened(everything, viewport={"width": width, "height": 800}, has_touch=True)
    _everything_open(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    table = page.get_by_role("region", name="Table: wide")
    assert table.evaluate("box => box.scrollWidth > box.clientWidth + 100")
    # Letters on charts stay legible: at most a fifth smaller than drawn, at twelve pixels.
    scales = page.eval_on_selector_all("svg.chart", "all => all.map(one => one.getScreenCTM().a)")
    assert min(scales) * 420 > width - 40


def test_values_are_told_where_a_mouse_points(opened, everything):
    page = opened(everything)
    tip = page.locator("#tip")
    assert not tip.is_visible()
    gains = page.locator("svg.chart").nth(1)
    box = gains.bounding_box()
    # Anywhere on the last row.
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.55)
    assert tip.inner_text() == "Adapted G\n+49.0 [+44.5, +53.4]"
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    along = page.locator("svg.chart.along").first
    along.hover()
    assert re.match(r"Update \d+\nStatic: 0\.\d{3}\nAdapted: 0\.\d{3}", tip.inner_text())


def test_values_are_told_on_touch_and_go_away(opened, everything):
    page = opened(everything, viewport=PHONE, has_touch=True, is_mobile=True)
    tip = page.locator("#tip")
    page.locator("svg.chart.rows").first.tap()
    page.wait_for_function("!document.getElementById('tip').hidden")
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    page.locator(".answer").tap()
    assert not tip.is_visible()


def test_values_are_told_to_the_keyboard(opened, everything):
    page = opened(everything)
    tip = page.locator("#tip")
    gains = page.locator("svg.chart.rows").first
    gains.focus()
    for label in ("Δobj", "Static G", "Adapted G", "Adapted G"):
        page.keyboard.press("ArrowDown")
        assert tip.inner_text().startswith(label)
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    assert page.get_by_role("img", name=re.compile("^Gains. Points. Δobj")).count() == 1


def test_without_its_script_a_page_still_has_its_values(opened, everything):
    page = opened(everything, java_script_enabled=False)
    assert page.locator("svg.chart").nth(1).locator(".m title").count() == 3
    assert not page.locator("#theme").is_visible()
    page.locator("summary", has_text="Values").first.click()
    assert page.get_by_role("region", name="Table: Gains").is_visible()


def test_dark_is_followed_and_chosen(opened, everything):
    light = opened(everything, color_scheme="light")
    dark = opened(everything, color_scheme="dark")
    for selector, name in (("body", "backgroundColor"), ("body", "color"), (".dot", "fill")):
        assert _colour(light, selector, name) != _colour(dark, selector, name)
    ground = _colour(dark, "body", "backgroundColor")
    light.get_by_role("button", name="Switch between light and dark").click()
    assert _colour(light, "body", "backgroundColor") == ground
    light.get_by_role("button", name="Switch between light and dark").click()
    assert _colour(light, "body", "backgroundColor") != ground


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_from_their_ground(opened, everything, scheme):
    page = opened(everything, color_scheme=scheme)

    def luminance(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(selector, name):
        pair = luminance(_colour(page, selector, name)), luminance(ground)
        return (max(pair) + 0.05) / (min(pair) + 0.05)

    ground = _colour(page, "body", "backgroundColor")
    # WCAG 2.2, level AA: 4.5 for text, 3 for graphics.
    for selector in ("body", ".caption", "nav a", "thead th", ".answer span"):
        assert contrast(selector, "color") >= 4.5, selector
    for look in range(7):
        page.evaluate(f"document.querySelector('.chart .m').setAttribute('class', 'm s{look}')")
        assert contrast(".chart .m .dot", "fill") >= 3, look
