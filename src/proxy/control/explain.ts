import { boundClients, type Look } from '../../kernel/proxier.ts'
import type { Protocol } from '../../model/service.ts'
import { bindText } from '../../observe/status-service-port.ts'
import type { Explanation } from '../../relay/explanation.ts'
import {
  type AddressPort,
  canonicalIp,
  isWildcard,
  splitHostPort,
} from '../../util/ip.ts'
import { canonicalUnix, isUnix, unixPeer } from '../../util/unix-address.ts'
import { type ControlDeps, type Handler, Refusal } from './carry-out.ts'
import { clientTarget } from './client-target.ts'
import { type DialledVip, dialledVip } from './dialled-vip.ts'
import { explainedEndpoints } from './explained-endpoints.ts'
import { shortName } from './named-service-ports.ts'
import { explainedVerdict } from './explained-verdict.ts'

/** Which endpoint a client would get at an address, and why not another. Changes nothing. */
export const explain: Handler<'explain'> = async (deps, request) => {
  const client = addressOf(request.client)
  const dialled = placeOf(request.address)
  if (isUnix(client) !== isUnix(dialled.address))
    throw bad(
      isUnix(client)
        ? `"${unixPeer}" is who dials a unix socket; give the client's IP address`
        : `who dials a unix socket has no address: the client is "${unixPeer}"`,
    )
  if (client.includes(':') !== dialled.address.includes(':'))
    throw bad(`${client} and ${dialled.address} are not of one IP family`)
  const protocol = request.protocol.toUpperCase() as Protocol
  const vip = dialledVip(deps.mode.placements, dialled, protocol)
  const { servicePort, placed } = vip
  const forClient = clientTarget(deps, vip, client)
  const explanation = await askRelay(deps, vip, client, dialled)
  const isOpen = explanation?.closed === ''
  const coming = isOpen ? explanation.workers.filter(({ mayCome }) => mayCome) : []
  const epoch = Date.now()
  const at = (ms: number): string => new Date(epoch + ms).toISOString()
  const looks = [
    ...deps.around.connectTime.looks(servicePort, placed.vip),
    ...(placed.capture === 'kernel'
      ? (deps.mode.looks?.(servicePort, placed.vip) ?? [])
      : []),
  ]
  return {
    client,
    address: bindText(dialled),
    protocol,
    route: shortName(servicePort.name),
    addressKind: placed.vip.kind,
    capture: placed.capture,
    listen: placed.binds.map(bindText).join(', '),
    verdict: explainedVerdict(vip, forClient, explanation, coming),
    balance: explanation?.by ?? deps.mode.name,
    affinityMs: servicePort.affinityMs,
    picks: coming.map(({ thread, outcome, why, waitMs, candidates, affinity }) => ({
      worker: thread,
      outcome,
      why,
      waitMs,
      endpoints: candidates,
      affinity: affinity ? { endpoint: affinity.key, until: at(affinity.leftMs) } : null,
    })),
    endpoints: explainedEndpoints(deps, vip, forClient, { explanation, coming }, at),
    looks,
    notes: notesOf(vip, explanation, looks),
  }
}

const bad = (why: string): Refusal => new Refusal(400, 'BAD_REQUEST', why)

const addressOf = (text: string): string => {
  if (text === unixPeer) return text
  const found = canonicalIp(text)
  if (found === undefined)
    throw bad(`${JSON.stringify(text)} is no IP address, as in 10.0.0.1`)
  return found
}

const placeOf = (text: string): AddressPort => {
  if (isUnix(text)) return { address: canonicalUnix(text), port: 0 }
  const { host, port } = splitHostPort(text) ?? { host: '', port: 0 }
  const address = canonicalIp(host)
  if (address === undefined || port === 0)
    throw bad(
      `${JSON.stringify(text)} is no address, as in 10.96.0.10:80 or [fd00::1]:80`,
    )
  return { address, port }
}

/** Undefined where no relay is on the way. */
const askRelay = async (
  { relay }: ControlDeps,
  { listenerId, placed }: DialledVip,
  client: string,
  { address }: AddressPort,
): Promise<Explanation | undefined> => {
  const bind =
    placed.binds.find(one => one.address === address) ??
    placed.binds.find(one => isWildcard(one.address)) ??
    placed.binds[0]
  if (bind === undefined) return undefined
  const dialled = isWildcard(bind.address) ? address : bind.address
  return relay()?.ask('explain', { listener: listenerId, bind, client, dialled })
}

const notesOf = (
  { servicePort: { acceptProxy, serverNames }, placed }: DialledVip,
  explanation: Explanation | undefined,
  looks: readonly Look[],
): readonly string[] => [
  ...(placed.reason === '' ? [] : [placed.reason]),
  ...(explanation !== undefined && acceptProxy !== undefined
    ? ['who comes by a proxy is the client that its header (PROXY protocol) names']
    : []),
  ...(explanation !== undefined && serverNames !== undefined
    ? [
        'TLS clients get endpoints by the server that they ask for; this is for all others',
      ]
    : []),
  ...(looks.some(({ what }) => what.startsWith(boundClients))
    ? [
        `which endpoint the kernel has for this client by affinity is not read; see "${boundClients}" below`,
      ]
    : []),
]
