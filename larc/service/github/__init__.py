"""GitHub in and out: webhooks become questions and labels, predictions become one check run."""
