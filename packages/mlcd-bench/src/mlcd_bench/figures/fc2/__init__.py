"""Of the FC² paper: `testbed` has one server and its workers, `figures` the presets, `claims` what they claim."""
