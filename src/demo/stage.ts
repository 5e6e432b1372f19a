import { demoError, type PlannedBackend } from './plan.ts'
import type { Protocol } from '../model/service.ts'
import type { ServicePortStatus, StatusDocument } from '../observe/status.ts'
import { type AddressPort, joinHostPort, splitHostPort } from '../util/ip.ts'

/** What the sections of the demo see of the proxy and of what stands behind it. */
export interface Stage {
  readonly backends: readonly PlannedBackend[]
  /** Addresses of this host to send from, so as to look like so many clients. */
  readonly clientAddresses: readonly string[]
  /** As the last `look` saw it. */
  readonly status: () => StatusDocument
  readonly look: () => Promise<void>
}

/** @throws DEMO when there is no such ServicePort. */
export const servicePortOf = (
  { status }: Pick<Stage, 'status'>,
  service: string,
  protocol: Protocol,
): ServicePortStatus => {
  const found = status().servicePorts.find(
    one =>
      one.protocol === protocol &&
      /^[^/]*\/([^:]*)/.exec(one.servicePort)?.[1] === service,
  )
  if (!found) throw demoError(`there is no ${protocol} port of a Service ${service}`)
  return found
}

/**
 * Where to dial a Service: its first VIP, or the proxy port that stands in for it.
 * @throws DEMO when Usher listens nowhere for it.
 */
export const targetOf = (
  stage: Pick<Stage, 'status'>,
  service: string,
  protocol: Protocol = 'TCP',
): AddressPort => {
  const vip = servicePortOf(stage, service, protocol).vips[0]
  const target = splitHostPort(vip?.listen ?? '')
  if (!vip || !target || vip.state === 'failed')
    throw demoError(
      `Usher does not listen for Service ${service}: ${vip?.reason || vip?.state || 'it has no VIP'}`,
    )
  return { address: target.host, port: target.port }
}

export const textOfTarget = ({ address, port }: AddressPort): string =>
  joinHostPort(address, port)

/** The backends that stand (or, if dead, should stand) behind a Service. */
export const backendsOf = (
  { backends }: Pick<Stage, 'backends'>,
  service: string,
  protocol: Protocol = 'TCP',
): readonly PlannedBackend[] =>
  backends.filter(one => one.service === service && one.protocol === protocol)
