"""What the playground withstands: lost connections, company, faults, stops, long hours and nonsense."""
