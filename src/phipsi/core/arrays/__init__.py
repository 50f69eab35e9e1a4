"""The one graph language of arithmetic: traced functions, their values and derivatives."""
