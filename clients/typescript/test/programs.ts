// Programs of pages, word by word.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { request } from "./outage.js";
import { freePort, sleep, type Server } from "./server.js";

const here = fileURLToPath(new URL("..", import.meta.url));

/** The only block of a page that is of a kind and has a text. */
export function block(page: string, kind: string, has: string): string {
  const found = [...readFileSync(join(here, page), "utf8").matchAll(/^```(\w*)\n(.*?)^```/gms)]
    .filter((m) => m[1] === kind && m[2]!.includes(has));
  assert.equal(found.length, 1, `${page}: ${has}`);
  return found[0]![2]!;
}

export interface Service {
  url: string;
  /** Ends the program as its platform does, and returns its status. */
  end: () => Promise<number | null>;
}

/** Runs a service of a page in this package, where it finds the package by its name. */
export async function serve(t: TestContext, program: string, server: Server, kind: "mjs" | "mts" = "mjs"): Promise<Service> {
  const dir = mkdtempSync(fileURLToPath(new URL("program-", import.meta.url)));
  t.after(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, `service.${kind}`), program);
  if (kind === "mts") {
    execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--ignoreConfig", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022",
      "--experimentalDecorators", "--emitDecoratorMetadata", "--types", "node", "service.mts"], { cwd: dir, stdio: "inherit" });
  }
  const port = await freePort();
  const p = spawn(process.execPath, ["service.mjs"], {
    cwd: dir, env: { ...process.env, HEADGATE: server.url, PORT: String(port) }, stdio: ["ignore", "ignore", "inherit"],
  });
  t.after(() => p.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}/`;
  for (let i = 0; !(await request(url).catch(() => undefined)); i++) {
    assert.ok(i < 1000 && p.exitCode === null, "the program does not listen");
    await sleep(20);
  }
  return {
    url,
    end: () => {
      p.kill("SIGTERM");
      return new Promise((r) => p.once("exit", r));
    },
  };
}
