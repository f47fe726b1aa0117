"""Iris, in two principal components.

The paper's second toy: three classes of flowers, of which two overlap. One panel per class shows the evidence
that the memory holds for it.
"""

from pathlib import Path

from totalcal.studies.toys import draw_toy, numbers, run_toy

# %%
study = run_toy("iris", seed=0)
print(numbers(study))
draw_toy(study, Path("toy_iris.png"))
