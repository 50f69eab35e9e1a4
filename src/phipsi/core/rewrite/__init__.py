"""The same operator, cheaper: rules, theorems and the engine that applies them."""
