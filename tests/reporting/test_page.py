import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from larc.reporting.page import page
from larc.reporting.svg import STOPS, draw
from tests.reporting.conftest import HOSTILE

VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Reads a page, and refuses an element that is not closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def html(report, facts):
    return page(report, facts)


@pytest.fixture(scope="module")
def read(html):
    return Reader(html)


def test_the_same_report_gives_the_same_page(report, facts, html):
    assert page(report, facts) == html


def test_a_page_is_well_formed_and_asks_nothing_of_the_network(html, read):
    tags = {tag for tag, _ in read.seen}
    assert {"main", "nav", "section", "figure", "svg", "details", "table"} <= tags
    assert not tags & {"img", "iframe", "object", "video", "audio", "form", "base", "image", "use"}
    places = [
        attributes[key]
        for _, attributes in read.seen
        for key in ("href", "src")
        if key in attributes
    ]
    assert "boundary%3D20%2Crule%3Dsgd_0.1/report.html" in places
    assert all(target.startswith(("#", "data:,", "boundary%3D20")) for target in places)
    assert "url(" not in html
    assert "@import" not in html


def test_names_that_are_no_names_stay_text(read):
    assert HOSTILE in read.text
    assert not any(key.startswith("on") for _, attributes in read.seen for key in attributes)


def test_only_the_page_s_own_script_may_run(html, read):
    (policy,) = [attributes["content"] for _, attributes in read.seen if "http-equiv" in attributes]
    (script,) = re.findall(r"<script>(.*?)</script>", html, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_everything_that_was_asked_for_is_there_in_order(report, read):
    parts = ["A study of everything", "It helped: error was", "Does it help", "The result"]
    parts += ["Tables", "Figures", "Settings", "Cost", "Command", "Provenance"]
    body = read.text[read.text.index("LARC report") :]
    places = [body.index(part) for part in parts[:3]]
    sections = [attributes["id"] for tag, attributes in read.seen if tag == "section"]
    assert places == sorted(places)
    assert sections == [
        *("result", "tables", "figures", "runs", "settings", "cost", "command", "provenance"),
    ]
    linked = [
        attributes["href"]
        for tag, attributes in read.seen
        if tag == "a" and attributes["href"][0] == "#"
    ]
    assert linked == [f"#{name}" for name in sections]
    assert "16.01\u00a0% kept" in body
    for text in ("larc study programs --preset quick", "Training seeds.", "1, 2", 64 * "a"):
        assert text in body


def test_every_chart_says_what_it_shows_and_every_mark_its_values(report):
    panels = [drawn for figure in report.figures for drawn in draw(figure)]
    titles = [re.findall(r"<title>(.*?)</title>", panel, flags=re.S) for panel in panels]
    assert [texts[0] for texts in titles][:3] == ["Error", "Gains", "Training"]
    assert titles[1][1:] == [
        "Δobj\n+36.4 [+32.3, +40.7]",
        "Static G\n+10.1 [+7.6, +12.2]",
        "Adapted G\n+49.0 [+44.5, +53.4]",
    ]
    assert titles[2][1] == "Update 1\nStatic: 0.700\nAdapted: 0.350"
    assert len(titles[2]) == STOPS + 1
    assert titles[4][1] == "Static: first, a row with quite a long name\n50.0 → 20.0"
    assert titles[5][2] == "b\n+4.00\none seed"
    assert titles[6][1].startswith("Confidence 0.550, Keep\n1.000\nweight 25.0 %")
    for panel in panels:
        assert panel.count("<desc>") == 1
        assert panel.count('class="m ') == panel.count("<title>") - 1


def test_a_long_line_keeps_its_ups_and_downs(report):
    drawn = draw(report.figures[1])[0]
    (line,) = re.findall(r'class="line s0" d="M([^"]*)"', drawn)
    heights = [float(point.split()[1]) for point in line.split("L")]
    assert len(heights) <= 402
    # The saw of the curve is still there, tooth by tooth.
    turns = sum(a < b > c for a, b, c in zip(heights, heights[1:], heights[2:], strict=False))
    assert turns > 100


def test_nothing_is_drawn_outside_of_its_chart(report):
    for figure in report.figures:
        for drawn in draw(figure):
            width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', drawn)[0])
            places = re.findall(r'data-x="(\S+)" data-y="(\S+)"', drawn)
            assert places
            assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in places)
