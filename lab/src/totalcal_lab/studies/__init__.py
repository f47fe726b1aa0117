"""Small experiments with a figure or a table: the paper's two toys (appendix B)."""
