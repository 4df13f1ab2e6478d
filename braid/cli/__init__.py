"""The command line. Heavy things are imported by the command that needs them, so that the others start fast."""


def main() -> None:
    from braid.cli.app import app

    app()
