"""The dashboard in a real browser, on a desk and on a phone, with and without script."""

from contextlib import contextmanager

import pytest

from tests.browser import PATIENCE
from tests.service.conftest import until
from tests.service.github.conftest import follow  # noqa: F401
from tests.service.github.deliveries import job_event, run_event, stamp

PHONE = {"width": 400, "height": 850}
DESK = {"width": 1400, "height": 900}
EVIL = "<img src=x onerror=alert(1)>"
LONG = "a-name-without-any-end-" * 4
PAGES = {
    "overview": "/",
    "stream": "/streams/acme.tickets",
    "question": "/streams/acme.tickets/question?id=hostile",
    "empty stream": "/streams/" + LONG,
    "rollback": "/streams/acme.tickets/rollback?version=0",
    "playground": "/playground",
    "missing": "/streams/nothing",
}


@pytest.fixture
def server(sqlite_server):
    server = sqlite_server
    server.make("acme.tickets", template="sham")
    server.make(LONG)
    for number in range(8):
        server.ask("acme.tickets", f"t{number}")
        server.label("acme.tickets", f"t{number}", "up")
    asked = server.ask("acme.tickets", "hostile", prompt=EVIL * 5, candidates=(EVIL, "b" * 30))
    assert asked.status_code == 201
    server.label("acme.tickets", "hostile", 0)
    return server


@pytest.fixture
def logged_in(browser, server):
    """Opens browsers that are logged in, and in the end refuses any complaint of theirs."""
    with logging_in(browser, server) as opening:
        yield opening


@contextmanager
def logging_in(browser, server):
    wrong, contexts = [], []

    def opening(**more):
        context = browser.new_context(**{"viewport": DESK, **more})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((server.address, "data:")) or wrong.append(request.url)
            ),
        )
        page.goto(server.address + "/login")
        page.fill("#token", server.token)
        page.press("#token", "Enter")
        page.wait_for_selector("#numbers")
        page.wrong = wrong
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not wrong


@contextmanager
def complaint(page, text):
    """A complaint that is right: the browser tells of every answer that is no success."""
    yield
    page.wrong[:] = [one for one in page.wrong if text not in one]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_every_page_fits(logged_in, server, size, scheme):
    page = logged_in(viewport=size, color_scheme=scheme)
    for path in PAGES.values():
        with complaint(page, "status of 404"):
            page.goto(server.address + path)
            page.wait_for_selector("h1")
        too_wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert too_wide <= 0, path
        small = page.evaluate(
            """[...document.querySelectorAll("button, input:not([type=hidden]), textarea")]
            .filter((one) => one.offsetParent && !one.matches("[type=radio], [type=checkbox]"))
            .filter((one) => one.offsetHeight < 36).map((one) => one.outerHTML)"""
        )
        assert small == [], path
        unnamed = page.evaluate(
            """[...document.querySelectorAll("input:not([type=hidden]), textarea")]
            .filter((one) => !one.labels.length).map((one) => one.outerHTML)"""
        )
        assert unnamed == [], path


def test_a_label_moves_the_chart_without_reload(logged_in, server):
    page = logged_in()
    page.goto(server.address + PAGES["stream"])
    page.wait_for_selector("body[data-drawn='9'] .plot canvas")
    page.wait_for_selector("#live:not([hidden])")
    page.evaluate("window.same = true")
    ink = """(name) => document.querySelector(`[data-chart=${name}] canvas`).toDataURL()"""
    before = {name: page.evaluate(ink, name) for name in ("loss", "weights", "regret")}
    server.ask("acme.tickets", "live")
    server.label("acme.tickets", "live", "down")
    page.wait_for_selector("body[data-drawn='10']")
    for name, drawn in before.items():
        assert page.evaluate(ink, name) != drawn, name
    assert page.locator("#question-list tbody tr").first.inner_text().startswith("live")
    assert page.locator("#numbers dd").first.inner_text() == "10"
    assert page.evaluate("window.same") is True


def test_the_first_label_brings_the_charts(logged_in, server):
    page = logged_in()
    page.goto(server.address + PAGES["empty stream"])
    page.wait_for_selector("#live:not([hidden])")
    assert page.locator("#nothing").is_visible()
    server.ask(LONG, "first")
    server.label(LONG, "first", "up")
    page.wait_for_selector("body[data-drawn='1'] .plot canvas")


def test_the_overview_follows(logged_in, server):
    page = logged_in()
    page.goto(server.address)
    page.wait_for_selector("#live:not([hidden])")
    server.ask("acme.tickets", "one more")
    page.wait_for_selector("#numbers .fact:nth-child(4) dd:has-text('oldest')")
    assert page.locator("#numbers dd").nth(1).inner_text() == "10"


def test_open_tables_stay_open_and_focus_stays(logged_in, server):
    page = logged_in()
    page.goto(server.address + PAGES["stream"])
    page.wait_for_selector("#live:not([hidden])")
    page.focus("#loss-table summary")
    page.keyboard.press("Enter")
    server.ask("acme.tickets", "live")
    server.label("acme.tickets", "live", "down")
    page.wait_for_selector("body[data-drawn='10']")
    assert page.locator("#loss-table").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.textContent") == "Loss as a table"
    assert page.locator("#loss-values tbody tr").last.inner_text().startswith("10 to 10")


def test_the_playground_moves_by_keyboard(logged_in, server):
    page = logged_in(viewport=PHONE)
    page.goto(server.address + "/playground")
    page.focus("#prompt")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("A bird goes ")
    page.keyboard.press("Tab")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(f"up\n{EVIL}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.policy")

    def share(index):
        return float(page.locator("table.policy b").nth(index).inner_text().split("\u00a0")[0])

    first = share(1)
    page.locator("table.policy button").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("table.policy .before")
    assert share(1) > first
    # The focus is on the same button: feedback can be given again and again.
    assert page.evaluate("document.activeElement.value") == "1"
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function(
        "(share) => Math.abs(parseFloat(document.querySelectorAll('table.policy b')[1]"
        ".textContent) - share) < 0.15",
        arg=first,
    )


def test_light_and_dark(logged_in, server):
    page = logged_in(color_scheme="light")
    page.goto(server.address + PAGES["stream"])
    page.wait_for_selector(".plot canvas")
    ground = "getComputedStyle(document.body).backgroundColor"
    drawn = "document.querySelector('[data-chart=loss] canvas').toDataURL()"
    light, chart = page.evaluate(ground), page.evaluate(drawn)
    page.click("#theme")
    assert page.evaluate(ground) != light
    assert page.evaluate(drawn) != chart
    page.reload()
    assert page.evaluate(ground) != light
    # The system's choice is followed where none was made here.
    other = logged_in(color_scheme="dark")
    assert other.evaluate(ground) != light


def test_without_script_everything_is_there(logged_in, server):
    page = logged_in(java_script_enabled=False)
    page.goto(server.address + PAGES["stream"])
    assert not page.locator(".plot").first.is_visible()
    page.click("#loss-table summary")
    assert page.locator("#loss-values").is_visible()
    assert page.locator("#loss-values tbody tr").count() == 9
    page.check("input[value=frozen]")
    page.get_by_role("button", name="Change the mode").click()
    assert server.status("acme.tickets")["mode"] == "frozen"
    page.goto(server.address + "/playground")
    page.get_by_role("button", name="Ask").click()
    page.locator("table.policy button").first.click()
    assert page.locator("table.policy .before").count() == 3
    page.get_by_role("button", name="Log out").click()
    assert page.url.endswith("/login")


def test_rollback_is_confirmed(logged_in, server):
    page = logged_in()
    page.goto(server.address + PAGES["rollback"])
    page.get_by_role("button", name="Roll back").click()
    assert "/rollback" in page.url  # the box is not ticked: nothing was sent
    assert "rollback" not in [one["kind"] for one in server.events("acme.tickets")]
    page.check("input[name=confirmed]")
    page.get_by_role("button", name="Roll back").click()
    page.wait_for_selector("#versions")
    assert server.events("acme.tickets")[-1]["kind"] == "rollback"


def test_a_repository_follows_its_jobs(browser, follow):  # noqa: F811
    follower = follow()
    follower.send_all(run_event())
    for number, conclusion in ((1, "success"), (2, "failure")):
        follower.send_all(job_event(number))
        follower.view()
        follower.send_all(job_event(number, "completed", conclusion=conclusion))
        follower.view()
    name = EVIL + "a-name-without-any-end-" * 6
    follower.send_all(job_event(3, name=name, head_branch=name, started_at=stamp(100)))
    until(lambda: [one["risk"] for one in follower.view()["running"]] != [None])
    with logging_in(browser, follower.server) as opening:
        for size in (PHONE, DESK):
            page = opening(viewport=size)
            for path in ("/repositories", "/repositories/o/r"):
                page.goto(follower.server.address + path)
                assert page.evaluate(
                    "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
                )
        page.wait_for_selector("#live:not([hidden])")
        assert page.locator("#running tbody tr").count() == 1
        times = {"started_at": stamp(100), "completed_at": stamp(160)}
        follower.send_all(job_event(3, "completed", name=name, **times))
        page.wait_for_selector("#running:has-text('No job runs now')")
        assert page.locator("#recent tbody tr").count() == 3
