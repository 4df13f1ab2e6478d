"""What a user of an experiment can do something about."""


class ExperimentError(Exception):
    """The message says what is wrong and what to do."""
