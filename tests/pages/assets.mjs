// The scripts of pages for tests in Node: test_javascript.py says where they are.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { runInNewContext } from "node:vm";

const { PHIPSI_ASSETS: assets, PHIPSI_PHYSICS: physics } = process.env;
const { PhipsiPhysics } = createRequire(import.meta.url)(join(assets, "physics.js"));

/** The physics of one of the simulators in tests/support/live_simulators.py, as its page has it. */
export function physicsOf(name) {
  const read = (file) => readFileSync(join(physics, name, file));
  return PhipsiPhysics.load(JSON.parse(read("physics.json")), read("physics.wasm"));
}

/** Functions of a script, which is run with what it wants of a page. */
export function fromScript(file, names, page = {}) {
  const text = readFileSync(join(assets, file), "utf8");
  return runInNewContext(`${text}\n;({ ${names.join(", ")} })`, page);
}
