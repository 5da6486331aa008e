"""A client of GitHub's REST API, and histories fetched with it; nothing here learns."""
