"""One module per `drydock` command: `add_arguments(parser)` and `run(arguments) -> exit code`."""
