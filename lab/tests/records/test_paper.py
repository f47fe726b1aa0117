from totalcal_lab.records import paper


def test_numbers_read_off_the_printed_tables():
    table = paper.results()
    assert table["fashion", "error"]["etp"].summary == (7.9 / 100, 0.2 / 100, 10)
    assert table["imdb", "error"]["enp"].summary.mean == 0.5
    assert table["cifar100", "auroc"]["enp"].summary.mean == 1.0
    assert table["svhn", "nll"]["etp"].summary.mean == 0.26
    assert paper.corruptions()["svhn", 5, "ece_100"]["etp"].summary.mean == 3.3 / 100


def test_the_tables_are_whole():
    assert len(paper.results()) == 5 * 4
    assert len(paper.corruptions()) == 3 * 5 * 2
    for table in (paper.results(), paper.corruptions()):
        assert all(set(entries) == set(paper.PRINTED_MODELS) for entries in table.values())
