import { writeFile } from 'node:fs/promises'
import { plainSettings } from '../../../src/kernel/proxier.ts'
import { ipvsKind } from '../../../src/kernel/ipvs/ipvs-proxier.ts'
import { runTool } from '../../../src/kernel/run-tool.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { readIfThere } from '../../../src/util/read-text.ts'
import { clusterIpOf, serviceNamed } from '../../e2e/capture/services.ts'
import { addressOf, backendPort } from '../../support/net/addresses.ts'
import { endpoint } from '../../support/objects.ts'
import { plainIpvs } from '../../support/plain-ipvs.ts'
import { clusterIp, servicePort } from '../../support/service-ports.ts'

const plain = serviceNamed('plain')
const endpoints = plain.backends.map(backend => ({
  ...endpoint(addressOf[backend].IPv4),
  port: backendPort,
}))
const forward = { verdict: 'forward', endpoints } as const
const port = servicePort('plain', {
  vips: [clusterIp(clusterIpOf(plain, 'IPv4'))],
  endpoints,
  reachable: endpoints,
  internal: forward,
  external: forward,
  externalFromNode: forward,
})

const snapshot = {
  family: 'IPv4',
  servicePorts: new Map([[port.key, port]]),
  healthChecks: new Map(),
} as const
/**
 * Puts the ClusterIP of one Service into ipvs, by this scheduler: what a sync of Usher's
 * does, without the trying and tidying of a start, which takes an emulated processor 10 s.
 */
export const syncIpvs = async (scheduler: string): Promise<void> => {
  const failures: string[] = []
  const proxier = ipvsKind({
    run: runTool,
    clock: systemClock,
    observer: {
      restoreFailed: () => {},
      // '' tells that it has worked.
      failed: (what, why) => void (why !== '' && failures.push(`${what}: ${why}`)),
    },
    options: { ...plainIpvs, scheduler },
    read: readIfThere,
    setSysctl: (name, value) => writeFile(`/proc/sys/${name}`, value),
  }).proxier('IPv4')
  await proxier.sync(snapshot, plainSettings)
  proxier.close()
  if (failures.length > 0) throw new Error(failures.join('; '))
}
