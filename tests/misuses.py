"""Right and wrong uses of the public API, for mypy alone: nobody runs this. See test_typing.py.

A line that mypy must refuse ends with its code; mypy must accept every other line.
"""

import numpy as np

import glassformer as gf


def right(model: gf.Model, trace: gf.Trace, texts: list[str]) -> None:
    model = gf.load("gf-encoder", device="cpu", dtype="float32")
    model.generate(texts, max_new_tokens=20, temperature=0.7, stop="\n", seed=None)
    model.generate([[1, 2], [3]], num_beams=2)
    print(model.generate("The cat", top_p=0.9)[0].text, *model.stream("The cat", seed=1))
    print(model.translate((text for text in texts), n_best=2, num_beams=4)[0].others)
    print(model.embed("a").norm(), model.embed([("a", "b")], to_numpy=True).mean())
    print(model.similarity("a", model.embed(texts)), model.similarity(np.ones((1, 3)), texts))
    print(model.fill("The [MASK].")[0].candidates, model.fill(texts)[0][0].candidates)
    print(model.tag("a b").spans, model.tag([["a", "b"], "c"])[0].labels)
    print(model.follows("a", "b") > 0.5, model.follows(texts, texts)[0] > 0.5)
    print(model.answer("who", "a cat")[0].text, model.answer(texts, texts)[0][0].text)
    print(model.classify(("a", "b"), top_k=1)[0].scores, model.config.width, model.device.type)
    trace = gf.record(model, "a", edit={"*.mixed": gf.ablate(0, [1, 2], by="mean")})
    trace.figure("head", layer=3, head=None).savefig("head.png")
    print(trace.table("heads", measure="entropy"), trace.view("head", token="a"))
    for event in gf.fit({"name": "x"}, changes={"train.steps": 3}):
        print(event.loss if isinstance(event, gf.Step) else event)
    print(gf.finetune(model, "classification", train=[("a", "b")]).run().classify("a"))


def wrong(model: gf.Model, trace: gf.Trace) -> None:
    model.generate("The cat", temprature=0.7)  # call-arg
    model.generate("The cat", max_new_tokens="20")  # arg-type
    model.translate("A cat.", num_beam=4)  # call-arg
    model.classify(5)  # arg-type
    model.embed("a", batch_sise=8)  # call-overload
    model.embed("a", to_numpy=True).cpu()  # attr-defined
    print(model.fill("The [MASK].").candidates)  # attr-defined
    print(model.tag(["a", "b"]).spans)  # attr-defined
    model.follows("a", 5)  # call-overload
    print(model.config.widht)  # attr-defined
    gf.load(5)  # arg-type
    gf.load("gf-encoder", divice="cpu")  # call-arg
    gf.record("gf-encoder", "a")  # arg-type
    gf.ablate("all")  # arg-type
    gf.ablate(0, by="median")  # arg-type
    trace[0]  # index
    trace.table("wieghts")  # arg-type
    trace.figure("head", lyer=3)  # call-arg
    trace.view("lens")  # arg-type
    gf.fit(5)  # arg-type
    gf.finetune("gf-encoder", "classify", train=[])  # arg-type
    gf.finetune("gf-encoder", "classification", [])  # call-arg
