"""Iris, in two principal components.

The paper's second toy: three species of iris, two of which overlap. Each map shows the memory's evidence for
one species; the cut below shows all three on one scale.
"""

from pathlib import Path

from totalcal_lab.studies.toys import draw_toy, numbers, run_toy

# %%
# One call trains the model as in the paper. The numbers say how often the memory favours the right species.
study = run_toy("iris", seed=0)
print(numbers(study))
draw_toy(study, Path("toy_iris.png"))
