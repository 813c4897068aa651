// The site of the documentation. Its navigation is the index in docs/README.md; links to files outside
// docs/ lead to the repository. A dead link fails the build.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, posix } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const repository = "https://github.com/weir-counter/weir";
const docs = dirname(dirname(fileURLToPath(import.meta.url)));

// sidebar has a group for each heading of the index, with the pages that are linked below it.
function sidebar() {
  const groups = [];
  const seen = new Set();
  for (const line of readFileSync(`${docs}/README.md`, "utf8").split("\n")) {
    const heading = line.match(/^## (.*)/);
    if (heading) groups.push({ text: heading[1], collapsed: groups.length > 2, items: [] });
    for (const [, file] of line.matchAll(/\]\(([\w./-]+\.md)(?:#[^)]*)?\)/g)) {
      if (file.startsWith("..") || seen.has(file) || groups.length === 0) continue;
      seen.add(file);
      groups.at(-1).items.push({ text: titleOf(file), link: "/" + file.replace(/README\.md$/, "").replace(/\.md$/, "") });
    }
  }
  return [{ text: "Overview", link: "/" }, ...groups.filter((group) => group.items.length > 0), { text: "HTTP API reference", link: "/api.html", target: "_self" }];
}

function titleOf(file) {
  return readFileSync(`${docs}/${file}`, "utf8").match(/^# (.*)/m)[1].replaceAll("`", "");
}

// outside turns links that leave docs/ into links to the repository.
function outside(md) {
  md.core.ruler.push("outside", (state) => {
    for (const token of state.tokens) {
      for (const child of token.children ?? []) {
        const href = child.type === "link_open" && child.attrGet("href");
        if (!href || /^([a-z]+:|#|\/)/.test(href)) continue;
        const path = posix.join(posix.dirname(state.env.relativePath === "index.md" ? "README.md" : state.env.relativePath), href);
        if (path.startsWith("../")) child.attrSet("href", `${repository}/blob/main/${path.slice(3)}`);
      }
    }
  });
}

export default {
  title: "Weir",
  description: "Hit counter and rate limiter: exact rolling windows and limits that hold, in a library, a binary or a cluster",
  srcDir: ".",
  srcExclude: ["**/node_modules/**"],
  outDir: "../bin/site",
  cacheDir: "../bin/site-cache",
  rewrites: { "README.md": "index.md", "decisions/README.md": "decisions/index.md" },
  lastUpdated: false,
  markdown: { config: outside, languageAlias: { caddyfile: "nginx", haproxy: "nginx" } },
  vite: { resolve: { alias: [ // the packages are here, not in docs/
    { find: /^vue\/server-renderer$/, replacement: dirname(require.resolve("vue/server-renderer")) + "/index.mjs" },
    { find: /^vue$/, replacement: require.resolve("vue/dist/vue.runtime.esm-bundler.js") },
  ] } },
  themeConfig: {
    search: { provider: "local" },
    sidebar: sidebar(),
    outline: [2, 3],
    socialLinks: [{ icon: "github", link: repository }],
    nav: [{ text: "Documentation", link: "/" }, { text: "HTTP API", link: "/api.html", target: "_self" }],
  },
};
