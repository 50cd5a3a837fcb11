"""The drafting view, round by round: drawing, table and summary."""
