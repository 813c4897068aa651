// Builds dist from src, and writes beside it the sum of what it was built from, for web_test.go.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

await build({
  entryPoints: { app: "src/main.ts", report: "src/report.ts" }, outdir: "dist", bundle: true, minify: true, format: "iife", target: "es2022",
  charset: "utf8", legalComments: "none", logLevel: "warning",
});
rmSync("dist/report.css"); // it is app.css again
for (const name of ["index.html", "icon.svg", "font.css"]) copyFileSync(`src/${name}`, `dist/${name}`);
const inter = "node_modules/@fontsource-variable/inter";
copyFileSync(`${inter}/files/inter-latin-wght-normal.woff2`, "dist/inter.woff2");
copyFileSync(`${inter}/LICENSE`, "dist/inter-license.txt");

const sources = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];
for (const entry of readdirSync("src", { recursive: true, withFileTypes: true })) {
  if (entry.isFile()) sources.push(`${entry.parentPath}/${entry.name}`.replaceAll("\\", "/"));
}
const sum = createHash("sha256");
for (const path of sources.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
  const content = readFileSync(path);
  sum.update(`${path} ${content.length}\n`);
  sum.update(content);
}
writeFileSync("dist/sources.sha256", sum.digest("hex") + "\n");
