// Shows openapi.json with an index. Everything from the document goes in as text, never as
// markup.
"use strict";

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== undefined && child !== ""));
  return node;
}

// prose turns `code` and **bold** of a description into elements.
function prose(text) {
  const parts = (text || "").split(/(`[^`]+`|\*\*[^*]+\*\*)/);
  return element("p", { class: "text" }, ...parts.map((part) => {
    if (part.startsWith("`")) return element("code", {}, part.slice(1, -1));
    if (part.startsWith("**")) return element("strong", {}, part.slice(2, -2));
    return part;
  }));
}

function schemaName(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.oneOf) return schema.oneOf.map(schemaName).join(" or ");
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "object";
  if (type.startsWith("array")) return "array of " + schemaName(schema.items);
  return type;
}

function limits(schema) {
  return ["default", "minimum", "maximum", "minLength", "maxLength"]
    .filter((name) => schema && schema[name] !== undefined)
    .map((name) => `${name} ${JSON.stringify(schema[name])}`).join(", ");
}

function table(heads, rows) {
  if (rows.length === 0) return "";
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))));
}

function fields(schema) {
  const required = new Set(schema.required || []);
  return table(["field", "type", "meaning"], Object.entries(schema.properties || {}).map(([name, field]) => [
    element("code", {}, name + (required.has(name) ? "" : "?")),
    schemaName(field),
    [field.description, limits(field)].filter(Boolean).join("; "),
  ]));
}

function body(content) {
  return Object.entries(content || {}).flatMap(([type, media]) => {
    const example = media.example === undefined ? "" :
      element("pre", {}, typeof media.example === "string" ? media.example : JSON.stringify(media.example, null, 2));
    return [element("p", {}, element("code", {}, type), " ", schemaName(media.schema)), example];
  });
}

// fold is a section that opens with a click or a link to it.
function fold(id, heading, ...content) {
  return element("details", { id }, element("summary", {}, ...heading), ...content);
}

function operation(path, method, op) {
  const parameters = table(["parameter", "type", "meaning"], (op.parameters || []).map((p) => [
    element("code", {}, p.name + (p.required ? "" : "?")),
    schemaName(p.schema),
    [p.description, limits(p.schema)].filter(Boolean).join("; "),
  ]));
  const answers = table(["status", "answer"], Object.entries(op.responses || {}).map(([status, response]) => [
    element("code", {}, status),
    element("div", {}, prose(response.description), ...body(response.content)),
  ]));
  return fold(op.operationId,
    [element("code", { class: "method " + method }, method.toUpperCase()), element("code", {}, path), " ", element("span", { class: "summary" }, op.summary || "")],
    prose(op.description), example(path, method, op), parameters, ...body(op.requestBody && op.requestBody.content), answers);
}

// group is the subject of a path: what follows its version.
function group(path) {
  return path.match(/^\/v1\/([^/]+)/)?.[1] || "server";
}

// index lists links to all operations and schemas, by subject, with a field that filters them.
function index(groups, schemas) {
  const lists = [...groups].map(([name, operations]) => [name, operations.map(({ path, method, op }) =>
    [op.operationId, element("code", { class: "method " + method }, method.toUpperCase()), " ", path.replace("/v1/", "")])]);
  lists.push(["schemas", schemas.map((name) => ["schema-" + name, name])]);
  const nav = element("nav", { "aria-label": "Operations and schemas" });
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": "Filter operations and schemas" });
  nav.append(filter, ...lists.map(([name, items]) => element("section", {}, element("h2", {}, name),
    element("ul", {}, ...items.map(([id, ...text]) => element("li", {}, element("a", { href: "#" + id }, ...text)))))));
  filter.addEventListener("input", () => {
    for (const section of nav.querySelectorAll("section")) {
      let any = false;
      for (const item of section.querySelectorAll("li")) {
        item.hidden = !item.textContent.toLowerCase().includes(filter.value.toLowerCase());
        any ||= !item.hidden;
      }
      section.hidden = !any;
    }
  });
  return nav;
}

// open opens what the address names.
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}

// example is a question that can be asked as it stands, with the parameters that
// have an example.
function example(path, method, op) {
  if (method !== "get") return "";
  const query = (op.parameters || []).flatMap((p) => {
    const value = [p.example, ...((p.schema && p.schema.examples) || [])].find((v) => v !== undefined);
    if (value === undefined) return [];
    return [value].flat().map((v) => `${p.name}=${encodeURIComponent(v).replaceAll("%3A", ":").replaceAll("%2F", "/")}`);
  }).join("&");
  return element("pre", {}, `curl '${location.origin}${path}${query && "?"}${query}'`);
}

async function show() {
  const page = document.getElementById("page");
  try {
    const api = await (await fetch("openapi.json")).json();
    const groups = new Map();
    for (const [path, item] of Object.entries(api.paths)) {
      for (const [method, op] of Object.entries(item)) {
        groups.set(group(path), [...(groups.get(group(path)) || []), { path, method, op }]);
      }
    }
    const schemas = Object.entries(api.components.schemas).sort(([a], [b]) => a.localeCompare(b));
    page.replaceChildren(
      element("h1", {}, `${api.info.title} API, version ${api.info.version}`),
      prose(api.info.description),
      element("p", {}, element("a", { href: "openapi.json" }, "OpenAPI document"), " ", element("a", { href: "metrics" }, "Metrics")),
      ...[...groups].map(([name, operations]) => element("section", {}, element("h2", {}, name), ...operations.map(({ path, method, op }) => operation(path, method, op)))),
      element("section", {}, element("h2", {}, "schemas"), ...schemas.map(([name, schema]) =>
        fold("schema-" + name, [element("code", {}, name)], prose(schema.description), fields(schema)))));
    page.before(index(groups, schemas.map(([name]) => name)));
    addEventListener("hashchange", open);
    open();
  } catch (error) {
    page.replaceChildren(element("p", {}, `The document could not be shown: ${error}`));
  }
}

show();
