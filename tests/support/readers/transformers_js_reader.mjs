// Run by node: what transformers.js gives for each job of a file.
//
// node transformers_js_reader.mjs PATH_OF_TRANSFORMERS_JS ASKED.json GIVEN.json
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";

const [where, asked, given] = process.argv.slice(2);
const library = await import(where);
library.env.allowRemoteModels = false;

function tensor(name, nested) {
  const dims = [];
  for (let each = nested; Array.isArray(each); each = each[0]) dims.push(each.length);
  const flat = nested.flat(Infinity);
  if (typeof flat[0] === "boolean") return new library.Tensor("bool", Uint8Array.from(flat, Number), dims);
  const whole = name.endsWith("_ids") || name.endsWith("_mask");
  return whole
    ? new library.Tensor("int64", BigInt64Array.from(flat, BigInt), dims)
    : new library.Tensor("float32", Float32Array.from(flat), dims);
}

async function answer(job) {
  try {
    library.env.localModelPath = dirname(job.folder);
    const model = await library[job.js ?? "AutoModelForCausalLM"].from_pretrained(basename(job.folder), { dtype: job.dtype ?? "fp32" });
    const inputs = Object.fromEntries(Object.entries(job.inputs).map(([name, each]) => [name, tensor(name, each)]));
    if (job.kind === "generate") {
      const found = await model.generate({ ...inputs, ...job.options });
      return { found: found.tolist().map((row) => row.map(Number)) };
    }
    return { found: (await model(inputs))[job.options.output].tolist() };
  } catch (error) {
    return { problem: String(error) };
  }
}

const found = [];
for (const job of JSON.parse(readFileSync(asked))) found.push(await answer(job));
writeFileSync(given, JSON.stringify(found));
