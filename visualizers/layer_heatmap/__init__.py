"""The view of DoLa's layers over the steps: drawing and summary."""
