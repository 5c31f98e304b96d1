// A form for each task that a loaded model has. All text is set as textContent: it stays text.

// `show` is the answer in short; the whole response is below it.
const FORMS = [
  {task: "generate", path: "v1/completions", named: true, fields: {prompt: "Once upon a time"}, more: {max_tokens: 40},
    show: ({choices}) => choices[0].text},
  {task: "translate", path: "translate", fields: {q: "The cat sat on the mat."}, languages: true,
    show: ({translatedText}) => translatedText},
  {task: "fill", path: "fill", fields: {text: "The cat sat on the [MASK]."},
    show: ({blanks}) => blanks.map(({candidates}) => candidates.map(({text, probability}) => scored(text, probability)).join("\n")).join("\n\n")},
  {task: "embed", path: "v1/embeddings", named: true, fields: {input: "A cat sat on the mat."},
    show: ({data: [{embedding}]}) => `${embedding.length} numbers: ${embedding.slice(0, 6).map((x) => x.toFixed(4)).join(", ")}, …`},
  {task: "rank", path: "rerank", fields: {query: "Who sat?", texts: "A cat sat.\nIt rained."}, lines: ["texts"], more: {return_text: true},
    show: (rows) => rows.map(({text, score}) => scored(text, score)).join("\n")},
  {task: "classify", path: "classify", fields: {text: "A warm and clever film."},
    show: ({scores}) => Object.entries(scores).map(([label, score]) => scored(label, score)).join("\n")},
  {task: "tag", path: "tag", fields: {text: "Ramona lives in Paris."},
    show: ({words}) => words.map(({text, label}) => `${label}  ${text}`).join("\n")},
  {task: "answer", path: "answer", fields: {question: "When does it open?", context: "The museum opens at nine."},
    show: ({answers}) => answers.map(({text, score}) => scored(text, score)).join("\n")},
  {task: "follows", path: "follows", fields: {a: "Paul went shopping.", b: "He bought a new shirt."},
    show: ({probability}) => `${(100 * probability).toFixed(1)} %`},
];
const key = document.getElementById("key");
const problem = document.getElementById("problem");

function make(name, text = "", attributes = {}) {
  const node = document.createElement(name);
  node.textContent = text;
  for (const [attribute, value] of Object.entries(attributes)) node.setAttribute(attribute, value);
  return node;
}

function scored(text, score) {
  return `${score.toFixed(3)}  ${text}`;
}

async function send(path, body) {
  const headers = key.value ? {Authorization: `Bearer ${key.value}`} : {};
  const options = body === undefined ? {headers} :
    {method: "POST", headers: {...headers, "Content-Type": "application/json"}, body: JSON.stringify(body)};
  const response = await fetch(path, options);
  return {ok: response.ok, content: await response.json()};
}

function formOf(form, row) {
  const node = make("form", "", {id: form.task});
  node.append(make("h2", `${form.task}: ${row.model}`));
  for (const [name, value] of Object.entries(form.fields)) {
    const label = make("label", name);
    const field = make("textarea", value, {name, rows: form.lines?.includes(name) ? 3 : 2});
    label.append(field);
    node.append(label);
  }
  const answer = make("p", "", {class: "answer", role: "status"});
  const whole = make("pre");
  const details = make("details");
  details.hidden = true;
  details.append(make("summary", `The whole answer of /${form.path}`), whole);
  node.append(make("button", "Send"), answer, details);
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = {...form.more};
    for (const [name, value] of new FormData(node)) {
      body[name] = form.lines?.includes(name) ? value.split("\n").filter(Boolean) : value;
    }
    if (form.named) body.model = row.model;
    if (form.languages) {
      const [[source, [target]]] = Object.entries(row.languages);
      Object.assign(body, {source, target});
    }
    answer.textContent = "…";
    try {
      const {ok, content} = await send(form.path, body);
      whole.textContent = JSON.stringify(content, null, 1);
      details.hidden = false;
      answer.textContent = ok ? form.show(content) : content.error.message ?? content.error;
    } catch (error) {
      answer.textContent = String(error);
    }
  });
  return node;
}

function draw(rows) {
  document.getElementById("queue").replaceChildren(...rows.map((row) => {
    const line = make("tr");
    const cells = [row.model, row.tasks.join(", "), row.running, row.waiting, row.waiting_tokens];
    line.append(...cells.map((cell) => make("td", String(cell))));
    return line;
  }));
  const forms = document.getElementById("forms");
  const offered = FORMS.map((form) => [form, rows.find((row) => row.tasks.includes(form.task))])
    .filter(([form, row]) => row && !(form.languages && !Object.keys(row.languages).length));
  const names = JSON.stringify(offered.map(([form, row]) => [form.task, row.model]));
  if (forms.dataset.names !== names) {
    forms.dataset.names = names;
    forms.replaceChildren(...offered.map(([form, row]) => formOf(form, row)));
  }
}

async function refresh() {
  try {
    const {ok, content} = await send("queue");
    problem.textContent = ok ? "" : content.error;
    if (ok) draw(content);
  } catch {
    problem.textContent = "The server does not answer.";
  }
  setTimeout(refresh, 2000);
}

refresh();
