"""Runs: directories that explain themselves, resume, and notice changes. No study is known here."""
