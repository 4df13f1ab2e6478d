"""Other matchers, measured on the same subscriptions and publications in the same run."""
