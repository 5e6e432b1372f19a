import { join } from 'node:path'
import type { Test } from 'tap'
import type { RelayEndpoint, RelayLimits } from '../../src/relay/relay.ts'
import { freeTcpPort, testHost } from './ports.ts'
import { type ListenerSpec, type MakeRelay, relayFixture } from './relay-fixture.ts'
import { socketFolder } from './unix-socket.ts'

/** A relay, and a folder for the sockets that it listens on and dials. */
export const unixFixture = (
  t: Test,
  make: MakeRelay,
  limits: Partial<RelayLimits> = {},
) => {
  const fixture = relayFixture(t, make, { limits })
  const folder = socketFolder(t)
  const unixAt = (name: string): string => `unix:${join(folder, name)}`
  /** Where a relay listens that is given these endpoints. */
  const listen = async (
    endpoints: readonly RelayEndpoint[],
    spec: ListenerSpec = {},
    address = unixAt('usher.sock'),
  ): Promise<string> => {
    await fixture.listen({ binds: [{ address, port: 0 }], endpoints, ...spec })
    return address
  }
  const overTcp = async (
    endpoints: readonly RelayEndpoint[],
    spec: ListenerSpec = {},
  ): Promise<number> => {
    const port = await freeTcpPort()
    await fixture.listen({ binds: [{ address: testHost, port }], endpoints, ...spec })
    return port
  }
  return { ...fixture, folder, unixAt, listen, overTcp }
}
