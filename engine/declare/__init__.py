"""How a strategy says what it takes: parameters, groups of them, and which loop exported code brings."""
