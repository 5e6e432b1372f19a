import { joinHostPort } from '../util/ip.ts'
import { type Claim, isHealthCheck, portsWithTakenName } from './claim.ts'
import type { Service } from './service.ts'
import type { Problem } from './snapshot.ts'
import type { Loss } from './vip-claims.ts'

/**
 * What of a Service could not be honoured: ports without a name of their own, and
 * each VIP that it claims and another holds.
 */
export const serviceProblems = (
  service: Service,
  losses: readonly Loss[],
): readonly Problem[] => {
  const object = `Service ${service.namespace}/${service.name}`
  const problems = new Map<string, Problem>()
  const add = (field: string, message: string): void => {
    // A node port lost to one Service in both families is one problem, not two.
    problems.set(`${field} ${message}`, { object, field, message })
  }
  for (const index of portsWithTakenName(service)) {
    const name = service.ports[index]?.name ?? ''
    const named = name === '' ? 'has no name' : `is named ${name}`
    add(
      `spec.ports[${index}].name`,
      `an earlier port of the same protocol ${named} too; give each port a name of its own`,
    )
  }
  for (const loss of losses) add(...describe(loss))
  return [...problems.values()]
}

const describe = ({ claim, holder }: Loss): [field: string, message: string] => {
  const { service, portIndex, vip, field } = claim
  const winner = holder.service
  const protocol = isHealthCheck(claim) ? 'TCP' : service.ports[portIndex]?.protocol
  const isNodePort = vip.kind === 'NodePort'
  const what = isNodePort
    ? `node port ${vip.port}/${protocol}`
    : `${joinHostPort(vip.address, vip.port)}/${protocol}`
  if (service === winner) {
    // The address is as it should be; the port repeats an earlier one.
    return [
      isNodePort ? field : `spec.ports[${portIndex}].port`,
      `${what} is taken by ${fieldOf(holder)}; choose another port`,
    ]
  }
  return [
    field,
    `${what} is held by Service ${winner.namespace}/${winner.name}${isHealthCheck(holder) ? ' (its healthCheckNodePort)' : ''}, which goes first by age or name; choose another ${isNodePort ? 'node port' : 'address or port'}`,
  ]
}

const fieldOf = (claim: Claim): string =>
  isHealthCheck(claim) ? claim.field : `spec.ports[${claim.portIndex}]`
