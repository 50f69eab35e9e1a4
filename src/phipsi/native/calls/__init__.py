"""Ways into machine code: gufunc, direct call, threads; and the loop over a batch."""
