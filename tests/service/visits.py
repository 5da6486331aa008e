"""Visits of the dashboard over HTTP, as by a browser without script."""

import re

import httpx


class Visit:
    """A browser without script, logged in or not."""

    def __init__(self, server, token=None):
        self.http = httpx.Client(base_url=server.address, timeout=60, follow_redirects=True)
        if token is not None:
            came = self.http.post("/login", data={"token": token}, follow_redirects=False)
            assert came.status_code == 303

    def get(self, path, **more):
        return self.http.get(path, **more)

    def send(self, path, page="/", **fields):
        """Send a form as a person would: with what the page's own form carries."""
        key = re.search(r'name="form_key" value="([0-9a-f]+)"', self.get(page).text)[1]
        return self.http.post(path, data={"form_key": key, **fields})
