import { workerData } from 'node:worker_threads'

// A worker of the Linux relay that collects its garbage each second, if any memory that the
// kernel writes to were among it, that would not go unnoticed.
setInterval(() => globalThis.gc?.(), 1000).unref()
// And that dies when it is told to, by its number.
const channel = new BroadcastChannel('dying workers')
channel.addEventListener('message', ({ data }) => {
  if (data === workerData.thread) process.exit(1)
})
// Whoever has told the one before waits for that.
// A channel between threads has no origins.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
channel.postMessage({ started: workerData.thread })
await import('../../dist/relay-worker.js')
