// Lessons: steps that open an address, say something, and check what the student does.

import * as api from "./api.js";
import { CHECKS } from "./checks.js";
import { el, swap } from "./dom.js";

const KEPT = "glassformer-lessons"; // the name of the progress in the browser

/** The steps done, by lesson. */
function remembered() {
  try {
    return new Map(Object.entries(JSON.parse(localStorage.getItem(KEPT)) ?? {}).map(([id, steps]) => [id, new Set(Array.isArray(steps) ? steps : [])]));
  } catch {
    return new Map(); // nothing is kept here, or it is damaged
  }
}

function remember(done) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries([...done].map(([id, steps]) => [id, [...steps]]))));
  } catch {
    // the browser keeps nothing: the lessons work all the same
  }
}

const modelOf = ({ at }) => new URLSearchParams(at.split("?")[1]).get("m");

export function lessons(app, drawer) {
  const done = remembered();
  let all = [];
  let now = null; // {lesson, step, opened: the state that the step opened with, or null while it opens}
  const isDone = ({ id }, step) => done.get(id)?.has(step) ?? false;

  function list() {
    now = null;
    drawer.open("lessons", "Lessons");
    swap(drawer.body, el("ol", { class: "lessons" }, ...all.map((lesson) => {
      const many = lesson.steps.filter((_, i) => isDone(lesson, i)).length;
      const missing = lesson.steps.map(modelOf).find((id) => !app.models.some((model) => model.id === id));
      const first = lesson.steps.findIndex((_, i) => !isDone(lesson, i));
      return el("li", { class: many === lesson.steps.length ? "done" : "" },
        el("button", { type: "button", class: "plain", disabled: missing !== undefined, on: { click: () => start(lesson, Math.max(0, first)) } }, el("b", { text: lesson.title }), el("span", { class: "quiet", text: lesson.lecture })),
        el("span", { class: "quiet", text: missing === undefined ? `${many} of ${lesson.steps.length} steps done` : `It needs ${missing}: start the studio without naming a model.` }));
    })), el("p", { class: "quiet", text: "Your progress is kept in this browser only." }));
  }

  function start(lesson, step) {
    now = { lesson, step, opened: null };
    drawer.open("lessons", lesson.title);
    draw("");
    app.visit(lesson.steps[step].at);
  }

  function draw(said, right = false) {
    const { lesson, step } = now;
    const { text, ask } = lesson.steps[step];
    const next = all[all.indexOf(lesson) + 1];
    const last = step === lesson.steps.length - 1;
    const ahead = last ? next && ["Next lesson", () => start(next, 0)] : ["Next step", () => start(lesson, step + 1)];
    const button = ([name, act], kind = "plain") => el("button", { type: "button", class: kind, text: name, on: { click: act } });
    swap(drawer.body,
      el("div", { class: "choice", role: "group", "aria-label": "Steps" }, ...lesson.steps.map((_, i) => el("button", {
        type: "button", "aria-pressed": String(i === step), "aria-label": `Step ${i + 1}${isDone(lesson, i) ? ", done" : ""}`, text: `${i + 1}${isDone(lesson, i) ? " ✓" : ""}`, on: { click: () => start(lesson, i) },
      }))),
      el("p", { class: "says", text }), el("p", { class: "asks", text: ask }),
      el("p", { class: `verdict ${right ? "passed" : said ? "failed" : ""}`, role: "status", text: said }),
      el("div", { class: "buttons" }, ahead ? button(ahead, right ? "main" : "plain") : null, button(["Open this step again", () => start(lesson, step)]), button(["All lessons", list])));
  }

  /** After each screen: is it right now? */
  function look() {
    if (!now || drawer.shows() !== "lessons") return;
    const { lesson, step, opened } = now;
    if (!opened) {
      now.opened = { ...app.state };
      return;
    }
    if (lookOf(app, app.state) === lookOf(app, opened)) return;
    const elsewhere = ["model", "text", "second"].some((name) => app.state[name] !== opened[name]);
    const [name, ...more] = lesson.steps[step].check;
    const verdict = elsewhere ? "this is another text. Open the step again." : CHECKS[name]({ ...app, opened }, ...more);
    if (verdict !== true) {
      draw(`Not yet: ${verdict}`);
      return;
    }
    if (!done.has(lesson.id)) done.set(lesson.id, new Set());
    done.get(lesson.id).add(step);
    remember(done);
    draw(step === lesson.steps.length - 1 ? "Right. This lesson is done." : "Right.", true);
  }

  return {
    look,
    async toggle() {
      if (drawer.shows() === "lessons") { drawer.shut(); return; }
      all = (await api.json("lessons")).lessons;
      if (now) start(now.lesson, now.step);
      else list();
    },
  };
}

/** A state without what is only a matter of looks. */
const lookOf = ({ address }, state) => address({ ...state, theme: "", large: false, zoom: 0 });
