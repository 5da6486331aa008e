"""A browser for the tests of pages. `python -m tests.browser` brings one, where it can."""

import os
import shutil
import subprocess
import sys

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
PACKAGE = "chromium-headless-shell"
PATIENCE = 120_000  # milliseconds: a busy machine is no failure


def launch(playwright: Playwright) -> Browser | None:
    """Start the first headless Chromium that starts: one of this machine's, or playwright's own."""
    for path in (*filter(None, map(shutil.which, NAMES)), None):
        try:
            return playwright.chromium.launch(executable_path=path, timeout=PATIENCE)
        except Error:
            continue
    return None


def starts() -> bool:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if browser:
            browser.close()
        return browser is not None


def ways() -> list[list[list[str]]]:
    """Ways to bring a browser, each a list of commands: the system's package, or playwright's."""
    packaged = [["apt-get", "-qq", "update"]]
    packaged += [["apt-get", "-qq", "install", "-y", "--no-install-recommends", PACKAGE]]
    downloaded = [[sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]]
    # Only who may install packages anyway is spared the download of a browser for one user.
    return [packaged, downloaded] if os.geteuid() == 0 and shutil.which("apt-get") else [downloaded]


def main() -> None:
    if starts():
        print("a browser is here")
        return
    for way in ways():
        done = all(
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
            == 0
            for command in way
        )
        if done and starts():
            print(f"a browser was brought with {way[-1][0]}")
            return
    print("no browser could be brought: the tests of pages in a browser are left out")


if __name__ == "__main__":
    main()
