"""Two classes that overlap.

The paper's first toy: an Evidential Turing Process learns two overlapping Gaussians. On either side of the
boundary, its memory holds more evidence for the class of that side, and the draws spread with distance.
"""

from pathlib import Path

from totalcal_lab.studies.toys import draw_toy, numbers, run_toy

# %%
# One call trains the model as in the paper. The study holds the data, the model and its memory.
study = run_toy("gaussians", seed=0)

# %%
# The same as numbers: how often the memory favours the right class away from the boundary, and how the spread
# of its evidence changes with distance.
print(numbers(study))
draw_toy(study, Path("toy_gaussians.png"))
