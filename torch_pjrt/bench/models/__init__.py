"""The models that the benchmark runs: own definitions, random weights from a fixed seed."""
