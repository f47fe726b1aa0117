"""The service answers what the model says, to the bit, and tells clients what they did wrong."""

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

import totalcal
from totalcal.decisions.sets import PredictionSets
from totalcal.errors import InputError
from totalcal.files.predicting.answers import answers
from totalcal.files.predicting.inputs import rows_of
from totalcal.files.saved import Model
from totalcal.serving.listening import check_binding
from totalcal.serving.service import Service

from .conftest import Running


def infer(client, images, **more):
    tensor = {
        "name": "inputs",
        "datatype": "FP64",
        "shape": list(images.shape),
        "data": images.ravel().tolist(),
    }
    return client.post("/v2/models/digits/infer", json={"inputs": [tensor], **more})


def outputs(response):
    assert response.status_code == 200, response.text
    return {
        each["name"]: np.array(each["data"]).reshape(each["shape"]) for each in response.json()["outputs"]
    }


def test_the_protocol_gives_the_model_s_own_answers_to_the_bit(client, saved, digits):
    images = digits[0][:20]
    found, own = outputs(infer(client, images)), answers(saved, list(images))
    np.testing.assert_array_equal(found["probabilities"], own.probabilities)
    np.testing.assert_array_equal(found["familiarity"], own.scores["familiarity"])
    for name in ("entropy", "reducible", "irreducible", "data", "unfamiliarity"):
        np.testing.assert_array_equal(found[name], own.scores[name])
    assert found["decision"].tolist() == own.decisions
    assert found["reason"].tolist() == own.reasons


def test_the_protocol_describes_itself_and_its_model(client):
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").status_code == 200
    assert client.get("/v2").json()["name"] == "totalcal"
    assert client.get("/v2/models/digits/ready").json()["ready"] is True
    described = client.get("/v2/models/digits").json()
    assert described["inputs"] == [{"name": "inputs", "datatype": "FP64", "shape": [-1, 1, 8, 8]}]
    assert {"probabilities", "familiarity", "decision"} <= {each["name"] for each in described["outputs"]}
    assert client.get("/v2/models/other").status_code == 404


@pytest.mark.parametrize("choice", [totalcal.Costs([[0, 1], [9, 0]], ask=0.4), totalcal.PerClass()])
def test_it_decides_by_costs_or_by_class_and_says_its_promise(choice):
    noise = torch.Generator().manual_seed(0)
    given = torch.rand(900, 1, generator=noise, dtype=torch.float64)
    labels = torch.bernoulli(1 - given[:, 0], generator=noise).long()
    given = torch.cat([given, 1 - given], 1)
    model = totalcal.calibrate_probabilities(given[:800], labels[:800], decisions=choice, classes=["a", "b"])
    expected, running = model.predict(given[800:]), Running(Service(model))
    try:
        with running.client() as client:
            found = client.post("/predict", json={"rows": given[800:].tolist()}).json()["predictions"]
            about = client.get("/about").json()
    finally:
        running.stop()
    assert [each["class"] for each in found] == expected.labels.tolist()
    assert [each["decision"] for each in found] == expected.decision
    within = [["a" in each["set"], "b" in each["set"]] for each in found]
    np.testing.assert_array_equal(within, expected.set(0.9))
    assert about["gate"] == model.gate.promise
    assert about["monitor"]["accepted_by_class"].keys() == set(expected.labels)


def test_an_id_comes_back(client, digits):
    assert infer(client, digits[0][:1], id="seven").json()["id"] == "seven"
    assert "id" not in infer(client, digits[0][:1]).json()


class Texts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.classes = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3)

    def forward(self, ids, mask):
        counts = ~mask if mask.dtype == torch.bool else mask
        return self.classes((self.words(ids) * counts.unsqueeze(-1)).sum(1))


@pytest.mark.parametrize(
    ("datatype", "mask"), [("FP32", np.ones((4, 3), np.float32)), ("BOOL", np.eye(4, 3) > 0)]
)
def test_a_model_of_several_tensors_takes_them_by_name(datatype, mask):
    torch.manual_seed(0)
    saved = Model(totalcal.etp(Texts(), num_classes=3))
    ids = np.arange(12).reshape(4, 3) % 9
    parts = [("ids", "INT64", ids), ("mask", datatype, mask)]

    def tensors(rows=slice(None)):
        return [
            {
                "name": name,
                "datatype": kind,
                "shape": list(part[rows].shape),
                "data": part[rows].ravel().tolist(),
            }
            for name, kind, part in parts
        ]

    running = Running(Service(saved, "texts"))
    try:
        with running.client() as client:
            path = "/v2/models/texts/infer"
            found = outputs(client.post(path, json={"inputs": tensors()}))
            few = [client.post(path, json={"inputs": tensors(slice(i, i + 1))}) for i in range(4)]
            wrong = client.post(path, json={"inputs": tensors()[:1]})
            uneven = client.post(path, json={"inputs": [tensors()[0], tensors(slice(0, 2))[1]]})
    finally:
        running.stop()
    expected = saved.predict({"ids": ids, "mask": mask}).probabilities.numpy()
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    alone = np.concatenate([outputs(each)["probabilities"] for each in few])
    np.testing.assert_allclose(alone, expected, atol=1e-6)
    assert (wrong.status_code, uneven.status_code) == (422, 422)
    assert "the net takes ids, mask" in wrong.json()["error"]
    assert "as many rows each" in uneven.json()["error"]


def of_texts(count, seed):
    noise = torch.Generator().manual_seed(seed)
    ids = torch.randint(9, (count, 6), generator=noise)
    return {"ids": ids, "mask": torch.rand(count, 6, generator=noise) < 0.2}, ids[:, 0] % 3


class FirstWord(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.classes = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3)

    def forward(self, ids):
        return self.classes(self.words(ids).mean(1))


@pytest.mark.parametrize("several", [True, False])
def test_people_send_rows_of_a_calibrated_net_as_it_takes_them(several, tmp_path):
    torch.manual_seed(0)
    net, (train, held_out, test) = (
        Texts() if several else FirstWord(),
        (of_texts(200, seed) for seed in range(3)),
    )
    if not several:
        train, held_out, test = ((rows["ids"], labels) for rows, labels in (train, held_out, test))
    totalcal.calibrate(net, train, held_out, progress=False).save(tmp_path / "it.totalcal")
    model = totalcal.load(tmp_path / "it.totalcal", backbone=Texts() if several else FirstWord())
    rows = test[0]
    if several:
        sent = [{name: part[row].tolist() for name, part in rows.items()} for row in range(5)]
    else:
        sent = rows[:5].tolist()
    running = Running(Service(model, "texts"))
    try:
        with running.client() as client:
            found = client.post("/predict", json={"rows": sent})
            described = client.get("/v2/models/texts").json()["inputs"]
            lacking = client.post("/predict", json={"row": {"ids": [1] * 6}})
            broken = client.post("/predict", json={"row": {"ids": [2.5] * 6, "mask": [0] * 6}})
    finally:
        running.stop()
    assert found.status_code == 200, found.text
    familiarity = [each["familiarity"] for each in found.json()["predictions"]]
    np.testing.assert_allclose(familiarity, model.predict(rows).familiarity[:5], atol=1e-6)
    ids = {"name": "ids" if several else "inputs", "datatype": "INT64", "shape": [-1, -1]}
    assert described == [ids, {"name": "mask", "datatype": "BOOL", "shape": [-1, -1]}][: 1 + several]
    assert (lacking.status_code, broken.status_code) == (422, 422)
    if several:
        assert "mask" in lacking.json()["error"]
        assert "ids" in broken.json()["error"]


def test_a_client_gets_the_outputs_that_it_asks_for(client, digits):
    data = digits[0][0].ravel().tolist()
    tensor = {"name": "inputs", "datatype": "FP64", "shape": [1, 1, 8, 8], "data": data}
    wanted = [{"name": "decision"}, {"name": "probabilities"}]
    said = client.post("/v2/models/digits/infer", json={"inputs": [tensor], "outputs": wanted}).json()
    assert [output["name"] for output in said["outputs"]] == ["decision", "probabilities"]
    for wrong in ([{"name": "logits"}], [{}], ["decision"], "decision"):
        refused = client.post("/v2/models/digits/infer", json={"inputs": [tensor], "outputs": wrong})
        assert refused.status_code == 422
        assert "output" in refused.json()["error"]


def test_people_get_class_terms_familiarity_decision_and_why(client, saved, digits):
    image = digits[0][3]
    [said] = client.post("/predict", json={"row": image.tolist()}).json()["predictions"]
    own = answers(saved, [image])
    assert said["class"] == "3"
    assert list(said["probabilities"].values()) == own.probabilities[0].tolist()
    assert said["uncertainty"] == {t: own.scores[t][0] for t in ("reducible", "irreducible", "data")}
    # the reducible term is estimated without bias, so that the sum is p (1 − p) up to its 1/draws
    p = np.array(list(said["probabilities"].values()))
    assert sum(said["uncertainty"].values()) == pytest.approx((p * (1 - p)).sum(), rel=1e-3)
    assert said["familiarity"] == own.scores["familiarity"][0]
    assert said["decision"] == "accept"
    noise = np.random.default_rng(0).random(64)
    [answer] = client.post("/predict", json={"row": noise.tolist()}).json()["predictions"]
    assert answer["decision"] == "not my domain"
    assert "unfamiliarity" in answer["reason"]
    assert answer["familiarity"] < 0.05


def test_people_get_the_classes_that_cannot_be_ruled_out(client, saved, digits):
    rows = digits[0][1400:1450]
    said = client.post("/predict", json={"rows": rows.tolist()}).json()["predictions"]
    own = saved.predict(rows).set(coverage=0.9)
    assert [each["set"] for each in said] == [
        [str(k) for k in row.nonzero().flatten().tolist()] for row in own
    ]


def test_sets_of_other_draws_are_refused_at_the_start(saved, digits):
    other = PredictionSets.fitted(saved.predict(digits[0][1400:], draws=3), digits[1][1400:])
    with pytest.raises(InputError, match="3 draws"):
        Service(replace(saved, sets=other))


def test_a_picture_is_read_as_predict_reads_it(client, saved, digits, picture, tmp_path):
    (tmp_path / "seven.png").write_bytes(picture(digits[0][7]))
    [chunk] = rows_of(tmp_path, saved.preprocessing).chunks(10)
    own = answers(saved, chunk.values)
    content = (tmp_path / "seven.png").read_bytes()
    response = client.post("/predict", content=content, headers={"Content-Type": "image/png"})
    [said] = response.json()["predictions"]
    assert list(said["probabilities"].values()) == own.probabilities[0].tolist()
    assert said["class"] == "7"


def test_64_at_once_get_their_own_answers(serve, saved, digits):
    """In a batch the last digits of float32 depend on the rows beside a row; never the answer."""
    images, running = digits[0], serve()

    def ask(number):
        with running.client() as client:
            return [outputs(infer(client, images[number * 5 + i : number * 5 + i + 1])) for i in range(5)]

    with ThreadPoolExecutor(64) as pool:
        found = [each for part in pool.map(ask, range(64)) for each in part]
    own = answers(saved, list(images[:320]))
    got = np.concatenate([each["probabilities"] for each in found])
    np.testing.assert_allclose(got, own.probabilities, rtol=0, atol=2e-6)
    assert [each["class"][0] for each in found] == [str(name) for name in own.best]
    assert running.service.batcher.waiting == 0


def test_exact_is_to_the_bit_also_under_load(serve, saved, digits):
    running = serve(exact=True)

    def ask(number):
        with running.client() as client:
            return outputs(infer(client, digits[0][number : number + 1]))["probabilities"][0]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(48)))
    alone = [answers(saved, [image]).probabilities[0] for image in digits[0][:48]]
    np.testing.assert_array_equal(found, alone)


def test_stopping_loses_no_request_that_was_accepted(serve, saved, digits):
    running = serve()
    slow, model = threading.Event(), running.service.batcher.model

    def held_up(rows):
        slow.wait(10)
        return model(rows)

    running.service.batcher.model = held_up

    def ask(number):
        with running.client() as client:
            return outputs(infer(client, digits[0][number : number + 1]))["class"][0]

    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask, number) for number in range(12)]
        while running.service.batcher.waiting < 12:
            time.sleep(0.01)
        running.server.should_exit = True
        threading.Timer(0.3, slow.set).start()
        found = [each.result(20) for each in asked]
    running.thread.join(20)
    assert not running.thread.is_alive()
    assert found == [str(name) for name in answers(saved, list(digits[0][:12])).best]


def test_the_monitor_is_fed_exported_and_kept(serve, digits, tmp_path):
    state = tmp_path / "monitor.json"
    running = serve(state=state)
    with running.client() as client:
        infer(client, np.random.default_rng(0).random((60, 1, 8, 8)))
        while running.service.monitor.rows < 60:  # it looks on after the answer is out
            time.sleep(0.01)
        metrics = client.get("/metrics").text
        seen = client.get("/about").json()["monitor"]
    assert 'totalcal_monitor_alarm{score="unfamiliarity"} 1.0' in metrics
    assert "totalcal_monitor_rows 60.0" in metrics
    mean = float(re.search(r'totalcal_monitor_mean{score="unfamiliarity"} (.*)', metrics)[1])
    before = float(re.search(r'totalcal_monitor_held_out_mean{score="unfamiliarity"} (.*)', metrics)[1])
    assert mean > 2 * before > 0
    assert 'totalcal_rows_total{decision="not my domain"}' in metrics
    assert 'path="/v2/models/{name}/infer",status="200"' in metrics
    assert "unfamiliarity" in seen["alarms"]
    running.stop()
    kept = json.loads(state.read_text())
    assert (kept["model"], kept["monitor"]["rows"]) == (running.service.digest, 60)
    again = serve(state=state)
    assert again.service.monitor.rows == 60


@pytest.mark.parametrize(
    ("kept", "reason"),
    [({"model": "0" * 16, "monitor": {}}, "another --state"), ({"rows": 60}, "monitor"), ([], "monitor")],
)
def test_a_monitor_that_another_model_fed_is_refused(saved, tmp_path, kept, reason):
    state = tmp_path / "monitor.json"
    state.write_text(json.dumps(kept))
    with pytest.raises(InputError, match=reason):
        Service(saved, state=state)


def test_only_this_machine_may_ask_without_a_token(saved):
    with pytest.raises(InputError, match="TOTALCAL_TOKEN"):
        check_binding("0.0.0.0", None)
    with pytest.raises(InputError, match="16 or more"):
        check_binding("0.0.0.0", "short")
    check_binding("0.0.0.0", "a" * 32)
    check_binding("127.0.0.1", None)


def test_a_port_that_is_taken_is_refused_in_words_before_anything_is_loaded(running):
    with pytest.raises(InputError, match=rf"{running.port} .*--port"):
        check_binding("127.0.0.1", None, running.port)


def test_draws_that_the_gate_was_not_fitted_with_are_refused_at_the_start(saved):
    with pytest.raises(InputError, match="5 draws"):
        Service(saved, draws=7)
