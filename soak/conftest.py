"""Scripts that run the harness at length are no tests."""

collect_ignore = ["soak.py", "disasters.py", "mutations.py", "lifecycle.py", "greedy.py"]
