"""The named algorithms, each written as an operator expression."""
