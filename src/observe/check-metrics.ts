import type { ServicePort, Snapshot } from '../model/snapshot.ts'
import { gauge, type Metric, type Sample } from './exposition.ts'
import { bindText, type CheckOf } from './status-service-port.ts'

interface CheckReadings {
  readonly snapshots: readonly Snapshot[]
  readonly checkOf: CheckOf
}

export const checkTable: readonly Metric<CheckReadings>[] = [
  gauge(
    'usher_endpoint_up',
    '1 for each endpoint that its check finds up, 0 for one that is down; no line for endpoints without a check.',
    ({ snapshots, checkOf }) =>
      snapshots.flatMap(({ servicePorts }) =>
        [...servicePorts.values()].flatMap(port => checkSamples(port, checkOf)),
      ),
    ['service_port', 'protocol', 'endpoint'],
  ),
]

const checkSamples = (servicePort: ServicePort, checkOf: CheckOf): Sample[] =>
  servicePort.endpoints.flatMap((endpoint): Sample[] => {
    const key = bindText(endpoint)
    const health = checkOf(servicePort, key)
    if (health === undefined) return []
    return [[[servicePort.name, servicePort.protocol, key], health.up ? 1 : 0]]
  })
