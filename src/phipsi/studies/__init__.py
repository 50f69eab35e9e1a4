"""Studies: many runs that differ in what is drawn, on one machine or many, kept in a folder."""
