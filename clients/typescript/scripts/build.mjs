// Builds dist/esm and dist/cjs, each with types.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";

const tsc = (...args) => execFileSync("node", ["node_modules/typescript/bin/tsc", ...args], { stdio: "inherit" });
rmSync("dist", { recursive: true, force: true });
tsc("-p", "tsconfig.json");
tsc("-p", "tsconfig.json", "--outDir", "dist/cjs", "--module", "commonjs", "--moduleResolution", "bundler");
mkdirSync("dist/cjs", { recursive: true });
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
copyFileSync("../../LICENSE", "LICENSE");
