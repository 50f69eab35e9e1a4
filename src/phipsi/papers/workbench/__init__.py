"""The workbench: a page on which operator expressions are typed, explained, proved and derived."""
