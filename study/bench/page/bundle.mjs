// Bundles the page that run.mjs measures: node study/bench/page/bundle.mjs FOLDER
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const installed = join(here, "../../../ui/node_modules");
const { build } = await import(join(installed, "vite/dist/node/index.js"));

const [outDir] = process.argv.slice(2);
if (!outDir) throw new Error("usage: node study/bench/page/bundle.mjs FOLDER");

const alias = ["preact", "uplot", "@preact/signals"].map((name) => ({ find: new RegExp(`^${name}(/|$)`), replacement: `${join(installed, name)}$1` }));
await build({
  configFile: false, root: here, logLevel: "warn",
  resolve: { alias },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: { outDir: resolve(outDir), emptyOutDir: true, target: "es2022", modulePreload: false, rollupOptions: { input: join(here, "series.html") } },
});
