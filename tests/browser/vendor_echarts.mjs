// Builds ipu_tf/profile/html/vendor from the packages of package-lock.json:
//   npm ci && npm run vendor
// An argument names another folder to write to.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? path.join(here, "../../ipu_tf/profile/html/vendor");
const packages = path.join(here, "node_modules");

const read = (name) => readFile(path.join(packages, name), "utf-8");
const version = async (name) => JSON.parse(await read(`${name}/package.json`)).version;

const notices = [
  [`Apache ECharts ${await version("echarts")}`, await read("echarts/NOTICE")],
  ["Apache ECharts is under the Apache License 2.0", await read("echarts/LICENSE")],
  ["Parts of d3.js in Apache ECharts", await read("echarts/licenses/LICENSE-d3")],
  [`zrender ${await version("zrender")}`, await read("zrender/LICENSE")],
  [`tslib ${await version("tslib")}`, await read("tslib/LICENSE.txt")],
];
const licences = notices
  .map(([title, text]) => `${title}\n${"=".repeat(title.length)}\n\n${text.replaceAll("\r", "").trim()}\n`)
  .join("\n\n");

await mkdir(target, { recursive: true });
await writeFile(path.join(target, "LICENSES.txt"), licences);
await build({
  entryPoints: [path.join(here, "echarts_entry.js")],
  outfile: path.join(target, "echarts.min.js"),
  absWorkingDir: here,
  banner: { js: `/* ${notices[0][0]}: the charts of this report. See the licences at its end. */` },
  bundle: true,
  charset: "ascii",
  define: { "process.env.NODE_ENV": '"production"' },
  format: "iife",
  globalName: "echarts",
  legalComments: "none",
  minify: true,
});
