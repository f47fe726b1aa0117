"""Against the original program: PSNR and mean change on 198 patches, one pass of ours, ten of its."""

import csv
from pathlib import Path

import numpy as np
import pytest

from totalcal_lab.corruptions import CORRUPTIONS, SEVERITIES, corrupt

REFERENCE = list(csv.DictReader(Path(__file__).with_name("psnr.csv").open()))
SIGNED_BY_DRAWS = {
    "snow",
    "frost",
    "fog",
    "elastic_transform",
    "spatter",
}  # their mean moves from pass to pass


def psnr(images, clean):
    error = np.square(images.astype(float) - clean).mean(axis=(1, 2, 3))
    return np.minimum(10 * np.log10(255**2 / np.maximum(error, 1e-9)), 60)


def tolerance(row):
    """0.02 dB if nothing is drawn, else four standard deviations of a pass; frost has other textures."""
    if row["type"] == "frost":
        return 0.6
    return 0.02 if row["repeats"] == "1" else max(0.03, 4 * float(row["pass_sd"]))


def test_the_reference_names_every_type_and_severity():
    named = {(row["type"], int(row["severity"])) for row in REFERENCE}
    assert named == {(type, severity) for type in CORRUPTIONS for severity in SEVERITIES}


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"{row['type']}-{row['severity']}")
def test_strength_is_that_of_the_original(patches, row):
    corrupted = corrupt(patches, row["type"], int(row["severity"]))
    assert psnr(corrupted, patches).mean() == pytest.approx(float(row["psnr_mean"]), abs=tolerance(row))
    if row["type"] not in SIGNED_BY_DRAWS:  # rounding instead of cutting off would be half a level higher
        change = corrupted.astype(float) - patches
        assert change.mean() == pytest.approx(float(row["signed_mean"]), abs=0.2)
