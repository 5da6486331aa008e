"""Tables, charts and pages. No study is known here."""
