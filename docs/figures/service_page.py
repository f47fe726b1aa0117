"""The pictures of the service's page: python docs/figures/service_page.py docs/images

A model of digits is asked about a drawn letter, and about digits that neither its training nor its gate saw.
"""

import base64
import io
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_digits

import totalcal
from totalcal.data.preprocessing import PictureSteps, Preprocessing
from totalcal.decisions import FalseRejection
from totalcal.decisions.monitor import watched_scores
from totalcal.files.saved import Model
from totalcal.nets import small_convnet
from totalcal.serving.listening import server
from totalcal.serving.service import Service

LETTER = [(8, 90), (8, 10), (50, 60), (92, 10), (92, 90)]  # M, in hundredths of the drawing's side


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images in [0, 1], in an order by chance."""
    found = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    return torch.tensor(found.images[:, None] / 16)[order], torch.tensor(found.target)[order]


def model_of(images: torch.Tensor, labels: torch.Tensor) -> Model:
    """700 rows teach the net, 300 calibrate its memory, 400 fit gate, sets and monitor."""
    torch.manual_seed(0)
    model = totalcal.softmax(small_convnet(10), num_classes=10)
    steps = PictureSteps((8, 8), colour=False)
    preprocessing = Preprocessing((1, 8, 8), torch.tensor(0.3), torch.tensor(0.4), pictures=steps)
    inputs = preprocessing(images.numpy())
    train = (inputs[:700], labels[:700])
    totalcal.train(model, *train, epochs=40, learning_rate=3e-3)
    totalcal.remember(model, train, (inputs[700:1000], labels[700:1000]), progress=False)
    saved = Model(model, preprocessing=preprocessing, classes=tuple(range(10)))
    rows, truth = images[1000:1400].numpy(), labels[1000:1400].numpy()
    domain = totalcal.Gate.fit(saved, rows, truth, rule=FalseRejection(0.005), score="unfamiliarity")
    gate = totalcal.Gate.fit(saved, rows, truth, rule=FalseRejection(0.045))
    bars = replace(domain.bars[0], verdict="not my domain"), replace(gate.bars[0], verdict="ask")
    gate = replace(gate, bars=bars)
    prediction = gate.predict(saved, rows)
    return Model(
        model,
        gate,
        saved.classes,
        preprocessing,
        monitor=totalcal.Monitor.start(watched_scores(prediction)),
        sets=totalcal.PredictionSets.fitted(prediction, truth, 0.9),
    )


def draw(page: Page, points: list[tuple[int, int]]) -> None:
    box = page.locator("#canvas").bounding_box()
    assert box is not None
    places = [(box["x"] + x / 100 * box["width"], box["y"] + y / 100 * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Ask about the drawing").click()


def drop(page: Page, image: torch.Tensor) -> None:
    file = io.BytesIO()
    Image.fromarray((image[0] * 255).byte().numpy()).resize((160, 160), Image.Resampling.NEAREST).save(
        file, "png"
    )
    page.evaluate(
        """data => {
          const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0)), transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "digit.png", {type: "image/png"}));
          const options = {dataTransfer: transfer, bubbles: true, cancelable: true};
          document.dispatchEvent(new DragEvent("drop", options));
        }""",
        base64.b64encode(file.getvalue()).decode(),
    )


def main(folder: Path) -> None:
    images, labels = digits()
    service = server(Service(model_of(images, labels)), port=0)
    threading.Thread(target=service.run, daemon=True).start()
    while not service.started:
        time.sleep(0.05)
    address = f"http://127.0.0.1:{service.servers[0].sockets[0].getsockname()[1]}"
    for rows in images[1400:1700].split(50):  # a stream in order, of rows that nothing was fitted on
        httpx.post(f"{address}/predict", json={"rows": rows.flatten(1).tolist()}, trust_env=False, timeout=60)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, width, scheme in (("", 1300, "light"), ("_dark", 1300, "dark"), ("_narrow", 400, "light")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(address)
            page.wait_for_selector("#canvas:visible")
            draw(page, LETTER) if name != "_dark" else drop(page, images[1700])
            page.wait_for_selector("#result:visible")
            page.wait_for_timeout(500)
            page.screenshot(path=folder / f"service_page{name}.png", full_page=True)
        print("the dropped digit is a", int(labels[1700]))
        browser.close()
    service.should_exit = True


if __name__ == "__main__":
    main(Path(sys.argv[1]))
