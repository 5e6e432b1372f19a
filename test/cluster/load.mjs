// load.mjs HOST PORT SECONDS: two workers ask for /hostname, each request with a connection of its own, and a third by one that it
// keeps. Prints what came of it as JSON.
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const [host, port, seconds] = process.argv.slice(2)
const until = performance.now() + Number(seconds) * 1000
const times = []
const failed = {}

/** Resolves with whether the connection was there before. */
const ask = agent =>
  new Promise((resolve, reject) => {
    const asked = request({ host, port, path: '/hostname', agent, timeout: 5000 })
    asked.on('response', answer => {
      answer
        .on('end', () => resolve(asked.reusedSocket))
        .on('error', reject)
        .resume()
    })
    asked.on('timeout', () => asked.destroy(new Error('no answer within 5 s')))
    asked.on('error', reject)
    asked.end()
  })

const work = async () => {
  while (performance.now() < until) {
    const began = performance.now()
    try {
      await ask(false)
      times.push(performance.now() - began)
    } catch (error) {
      const why = error.code ?? error.message
      failed[why] = (failed[why] ?? 0) + 1
    }
    await sleep(10)
  }
}

let cut = 0
const keep = async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let isFirst = true
  while (performance.now() < until) {
    const isKept = await ask(agent).catch(() => false)
    if (!isKept && !isFirst) cut += 1
    isFirst = false
    await sleep(100)
  }
  agent.destroy()
}

await Promise.all([work(), work(), keep()])
times.sort((a, b) => a - b)
const at = part => Number((times[Math.floor(part * times.length)] ?? 0).toFixed(2))
const lost = Object.values(failed).reduce((sum, count) => sum + count, 0)
console.log(
  JSON.stringify({
    asked: times.length + lost,
    failed: lost,
    why: failed,
    p50: at(0.5),
    p99: at(0.99),
    cut,
  }),
)
