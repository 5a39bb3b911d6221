// `node onnxruntime_web.cjs REQUEST ...`: answers the calls of requests by onnxruntime-web's WebAssembly, in one thread.
// irkit/runtimes/exchange.py describes the files.
"use strict";
const fs = require("fs");
const path = require("path");
const { createRequire } = require("module");

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  bool: Uint8Array, float16: Uint16Array,
};

function tensorOf(ort, told) {
  const bytes = new Uint8Array(fs.readFileSync(told.file));
  const HalfArray = told.dtype === "float16" && typeof Float16Array !== "undefined" ? Float16Array : null;
  const View = HalfArray || ARRAYS[told.dtype];
  if (!View) throw new Error(`onnxruntime-web takes no tensor of ${told.dtype}`);
  return new ort.Tensor(told.dtype, new View(bytes.buffer), told.shape);
}

async function answerOf(ort, session, call) {
  const feeds = Object.fromEntries(call.inputs.map((told) => [told.name, tensorOf(ort, told)]));
  const found = await session.run(feeds);
  const results = session.outputNames.map((name, at) => {
    const tensor = found[name];
    const file = `${call.output}.${at}`;
    fs.writeFileSync(file, new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength));
    return { dtype: tensor.type, shape: Array.from(tensor.dims), file };
  });
  return { results, problem: "" };
}

async function answer(ort, request) {
  const asked = JSON.parse(fs.readFileSync(request, "utf-8"));
  let session = null;
  let refusal = "";
  try {
    session = await ort.InferenceSession.create(asked.model, { executionProviders: ["wasm"], logSeverityLevel: 4 });
  } catch (error) {
    refusal = String(error.message || error);
  }
  for (const call of asked.calls) {
    let told = { results: [], problem: refusal };
    if (session) {
      try {
        told = await answerOf(ort, session, call);
      } catch (error) {
        told = { results: [], problem: String(error.message || error) };
      }
    }
    fs.writeFileSync(call.output, JSON.stringify(told));
  }
  if (session) await session.release();
}

async function main(requests) {
  const ort = createRequire(path.join(process.cwd(), "irkit.js"))("onnxruntime-web");
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "fatal";
  for (const request of requests) await answer(ort, request);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(String(error.message || error));
  process.exit(1);
});
