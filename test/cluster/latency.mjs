// latency.mjs KUBECONFIG COUNT: run on a node. Milliseconds from a Service's first ready EndpointSlice to its first answer, for COUNT
// Services of the pods `app=web`, made one after the other; and from their end to no answer.
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const [file, count] = process.argv.slice(2)
const { clusters, users } = JSON.parse(readFileSync(file, 'utf8'))
const base64 = text => Buffer.from(text, 'base64')
const { cluster } = clusters[0]
const { user } = users[0]
const agent = new Agent({
  keepAlive: true,
  ca: base64(cluster['certificate-authority-data']),
  cert: base64(user['client-certificate-data']),
  key: base64(user['client-key-data']),
})

/** Resolves with the answer; with `line`, calls that for each line of it instead. */
const api = (method, path, body, line) =>
  new Promise((resolve, reject) => {
    const asked = request(new URL(path, cluster.server), {
      method,
      agent: line ? undefined : agent,
      ...(line && {
        ca: agent.options.ca,
        cert: agent.options.cert,
        key: agent.options.key,
      }),
      headers: { 'content-type': 'application/json' },
    })
    asked.on('error', reject)
    asked.on('response', answer => {
      let text = ''
      answer.setEncoding('utf8').on('data', chunk => {
        text += chunk
        if (line === undefined) return
        const lines = text.split('\n')
        text = lines.pop()
        for (const one of lines) if (line(JSON.parse(one))) asked.destroy()
      })
      answer.on('error', () => {})
      answer.on('end', () => {
        if (answer.statusCode >= 400)
          reject(
            new Error(`${method} ${path}: ${answer.statusCode} ${text.slice(0, 200)}`),
          )
        else resolve(text === '' ? {} : JSON.parse(text))
      })
    })
    asked.end(body && JSON.stringify(body))
  })

/** Whether somebody accepts there, within 100 ms. */
const answers = host =>
  new Promise(resolve => {
    const socket = connect({ host, port: 80 })
    const end = is => {
      clearTimeout(timer)
      socket.destroy()
      resolve(is)
    }
    const timer = setTimeout(() => end(false), 100)
    socket.on('connect', () => end(true)).on('error', () => end(false))
  })

/**
 * When somebody answered there first (`is`), or when the first try began that nobody answered. Each 5 ms one
 * begins: where nothing is served a try ends only with its time.
 */
const until = (host, is) =>
  new Promise((resolve, reject) => {
    const end = performance.now() + 10_000
    const trying = setInterval(async () => {
      const began = performance.now()
      const answered = await answers(host)
      if (answered === is) done(() => resolve(is ? performance.now() : began))
      else if (began > end) done(() => reject(new Error(`${host}: no change in 10 s`)))
    }, 5)
    const done = settle => {
      clearInterval(trying)
      settle()
    }
  })

const services = '/api/v1/namespaces/default/services'
const slices = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices'
const [made, removed] = [[], []]
for (let i = 0; i < Number(count); i += 1) {
  const name = `made-${i}`
  let ready
  const isReady = new Promise(resolve => {
    const label = encodeURIComponent(`kubernetes.io/service-name=${name}`)
    api('GET', `${slices}?watch=1&labelSelector=${label}`, undefined, ({ object }) => {
      if (!object.endpoints?.some(({ conditions }) => conditions.ready)) return false
      ready = performance.now()
      resolve()
      return true
    }).catch(() => {})
  })
  await sleep(50)
  const spec = { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] }
  const service = await api('POST', services, { metadata: { name }, spec })
  const host = service.spec.clusterIP
  const [answered] = await Promise.all([until(host, true), isReady])
  made.push(Math.max(answered - ready, 0))
  await api('DELETE', `${services}/${name}`)
  const gone = performance.now()
  removed.push((await until(host, false)) - gone)
  await sleep(300)
}
agent.destroy()
const figures = all => {
  const sorted = all.toSorted((a, b) => a - b)
  return {
    median: Math.round(sorted[sorted.length >> 1]),
    max: Math.round(sorted.at(-1)),
  }
}
console.log(JSON.stringify({ made: figures(made), removed: figures(removed) }))
