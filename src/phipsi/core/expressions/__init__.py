"""What the user writes: interned operator expressions over typed spaces."""
