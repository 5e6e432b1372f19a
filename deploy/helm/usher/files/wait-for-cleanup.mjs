// Ends when every node has been cleaned up by the DaemonSet PATH, so that Helm takes that away; with 1 after four minutes.
import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'

const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env
const [path] = process.argv.slice(-1)
const url = `https://${host.includes(':') ? `[${host}]` : host}:${port}${path}`
const token = () =>
  readFileSync('/var/run/secrets/kubernetes.io/serviceaccount/token', 'utf8')

/** Why it is not done. */
const look = async () => {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token()}` } })
  if (!answer.ok) return `${answer.status} ${await answer.text()}`
  const { metadata, status } = await answer.json()
  const { desiredNumberScheduled: nodes = 0, numberReady: clean = 0 } = status
  const isSeen = status.observedGeneration >= metadata.generation
  return isSeen && clean >= nodes ? '' : `${clean} of ${nodes} nodes are clean`
}

let why = ''
for (let tries = 0; tries < 240; tries += 1) {
  const now = await look().catch(error => String(error.cause ?? error))
  if (now === '') process.exit(0)
  if (now !== why) console.log(now)
  why = now
  await setTimeout(1000)
}
console.error(`${why}; the logs of the other pods of the DaemonSet say why`)
process.exit(1)
