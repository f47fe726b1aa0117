"""Two classes that overlap.

The paper's first toy: an Evidential Turing Process learns two overlapping Gaussians. The evidence that its
memory holds for a class is large where that class is right, and fades with the distance from the data.
"""

from pathlib import Path

from totalcal.studies.toys import draw_toy, numbers, run_toy

# %%
# One call trains the model as the paper does. The study keeps the data, the model and its memory.
study = run_toy("gaussians", seed=0)

# %%
# What the figure claims can be read off as numbers, too: how often the memory favours the right class away
# from the boundary, and how its evidence changes with distance.
print(numbers(study))
draw_toy(study, Path("toy_gaussians.png"))
