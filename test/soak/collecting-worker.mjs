// A worker of the Linux relay that collects its garbage each second, if any memory that the
// kernel writes to were among it, that would not go unnoticed.
setInterval(() => globalThis.gc?.(), 1000).unref()
await import('../../dist/relay/linux/worker/worker-main.js')
