"""The page: one self-contained HTML file that shows a mechanism, a run or a study."""
