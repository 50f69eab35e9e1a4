"""Code for matrices: columns along paths, products where paths meet, inverses, known zeros."""
