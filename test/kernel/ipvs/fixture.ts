import { ipvsKind } from '../../../src/kernel/ipvs/ipvs-proxier.ts'
import type { IpvsOptions } from '../../../src/kernel/ipvs/ipvs-deps.ts'
import {
  type KernelSettings,
  plainSettings,
  type Proxier,
  type ProxierKind,
} from '../../../src/kernel/proxier.ts'
import type {
  Endpoint,
  ServicePort,
  Snapshot,
  Target,
} from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import * as objects from '../../support/objects.ts'
import { plainIpvs } from '../../support/plain-ipvs.ts'
import { FakeKernel } from './fake-kernel.ts'

export const settings: KernelSettings = {
  ...plainSettings,
  localDetector: { by: 'source', cidrs: ['10.244.0.0/16'] },
  nodeAddresses: ['203.0.113.1'],
}

const endpoint = (address: string): Endpoint => ({
  ...objects.endpoint(address),
  port: 8080,
})

export const forward = (...addresses: readonly string[]): Target => ({
  verdict: 'forward',
  endpoints: addresses.map(endpoint),
})

/** The same for all clients. */
export const everywhere = (target: Target) => ({
  internal: target,
  external: target,
  externalFromNode: target,
  reachable: target.endpoints,
})

export const snapshotOf = (
  servicePorts: readonly ServicePort[],
  family: IpFamily = 'IPv4',
  healthPorts: readonly number[] = [],
): Snapshot => ({
  family,
  servicePorts: new Map(servicePorts.map(each => [each.key, each])),
  healthChecks: new Map(
    healthPorts.map(port => [
      `default/${port}`,
      { namespace: 'default', serviceName: String(port), port, localReady: 1 },
    ]),
  ),
})

export interface Fixture {
  readonly kernel: FakeKernel
  readonly clock: FakeClock
  readonly kind: ProxierKind
  readonly proxier: Proxier
  /** What the observer heard. */
  readonly heard: string[]
}

export const fixture = (
  over: Partial<IpvsOptions> = {},
  kernel = new FakeKernel(),
  family: IpFamily = 'IPv4',
): Fixture => {
  const clock = new FakeClock()
  const heard: string[] = []
  const kind = ipvsKind({
    run: kernel.run,
    read: kernel.read,
    setSysctl: kernel.setSysctl,
    clock,
    options: { ...plainIpvs, ...over },
    observer: {
      restoreFailed: (...all) => void heard.push(`restore failed: ${all.join(' ')}`),
      failed: (what, why) => void (why !== '' && heard.push(`${what}: ${why}`)),
    },
  })
  return { kernel, clock, kind, proxier: kind.proxier(family), heard }
}

/** Lets what waits for the fake kernel go on. */
export const settle = async (): Promise<void> => {
  for (let turns = 0; turns < 20; turns += 1)
    await new Promise(resolve => void setImmediate(resolve))
}
