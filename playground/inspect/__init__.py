"""Questions about a model or a run that have one answer."""
