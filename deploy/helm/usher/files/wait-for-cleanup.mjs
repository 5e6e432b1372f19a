// Ends when every node has been cleaned up by the DaemonSet NAME in NAMESPACE, so that Helm takes that away; with 1 after four
// minutes: Helm waits for five.
import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'

const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env
const [namespace, name] = process.argv.slice(-2)
const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
const url = `${server}/apis/apps/v1/namespaces/${namespace}/daemonsets/${name}`
const token = () =>
  readFileSync('/var/run/secrets/kubernetes.io/serviceaccount/token', 'utf8')

/** Why it is not done. */
const look = async () => {
  const headers = { authorization: `Bearer ${token()}` }
  const answer = await fetch(url, { headers, signal: AbortSignal.timeout(5000) })
  if (!answer.ok) return `${answer.status} ${await answer.text()}`
  const { metadata, status } = await answer.json()
  const { desiredNumberScheduled: nodes = 0, numberReady: clean = 0 } = status
  const isSeen = status.observedGeneration >= metadata.generation
  return isSeen && clean >= nodes ? '' : `${clean} of ${nodes} nodes are clean`
}

let why = ''
const end = performance.now() + 240_000
while (performance.now() < end) {
  const now = await look().catch(error => String(error.cause ?? error))
  if (now === '') process.exit(0)
  if (now !== why) console.log(now)
  why = now
  await setTimeout(1000)
}
console.error(`${why}; the logs of the other pods of the DaemonSet say why. It goes on trying until it is taken away:
kubectl -n ${namespace} delete daemonset,job,serviceaccount,role,rolebinding ${name}`)
process.exit(1)
