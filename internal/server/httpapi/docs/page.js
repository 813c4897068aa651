// Shows /openapi.json. Everything from the document goes in as text, never as
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
  return element("section", { id: op.operationId },
    element("h2", {}, element("code", { class: "method" }, method.toUpperCase()), element("code", {}, path)),
    element("p", {}, element("strong", {}, op.summary || "")),
    prose(op.description), example(path, method, op), parameters, ...body(op.requestBody && op.requestBody.content), answers);
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
    const api = await (await fetch("/openapi.json")).json();
    const operations = Object.entries(api.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, op]) => operation(path, method, op)));
    const schemas = Object.entries(api.components.schemas).map(([name, schema]) =>
      element("section", { id: "schema-" + name }, element("h2", {}, name), prose(schema.description), fields(schema)));
    page.replaceChildren(
      element("h1", {}, `${api.info.title} API, version ${api.info.version}`),
      prose(api.info.description),
      element("p", {}, element("a", { href: "/openapi.json" }, "/openapi.json"), " ", element("a", { href: "/metrics" }, "/metrics")),
      ...operations, ...schemas);
  } catch (error) {
    page.replaceChildren(element("p", {}, `The document could not be shown: ${error}`));
  }
}

show();
