import type { Test } from 'tap'
import type { Bind, RelayEndpoint } from '../../src/relay/relay.ts'
import type { Random } from '../fault-run/random.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../support/ports.ts'
import { endpoint, type ListenerSpec } from '../support/relay-fixture.ts'
import { silentBackend } from '../support/silent-backend.ts'
import { type Guestbook, startServer } from './server.ts'
import { startUdpServer } from './udp-echo.ts'

type Protocol = 'TCP' | 'UDP'
type ByProtocol<T> = Readonly<Record<Protocol, T>>

/** A ServicePort of the soak: its endpoints come and go, and so may the whole of it. */
export interface Door {
  readonly protocol: Protocol
  readonly bind: Bind
  /** Always served. Others are taken away for a while, again and again. */
  readonly isSteady: boolean
  isOpen: boolean
  /** The relay has done as `isOpen` says. */
  isSettled: boolean
  /** Counts how often it was opened or closed: visits in between may fail. */
  turns: number
  endpoints: readonly RelayEndpoint[]
  affinityMs: number
}

export interface Stage {
  readonly doors: readonly Door[]
  /** What the relay is to listen on now. */
  readonly specs: () => readonly ListenerSpec[]
  /** Changes one thing at random, and says of which door. */
  readonly change: () => Door
  /** Everything is open, and all endpoints serve. */
  readonly calm: () => void
}

/** Servers, addresses where nobody answers, and doors that lead to some of them. */
export const setStage = async (
  t: Pick<Test, 'teardown'>,
  random: Random,
  book: Guestbook,
): Promise<Stage> => {
  const live = await liveEndpoints(t, book)
  const dead = await deadEndpoints(t)
  const doors = await openDoors(live)
  return {
    doors,
    specs: () => doors.filter(({ isOpen }) => isOpen).map(specOf),
    change: () => {
      const door = random.pick(doors)
      change(random, door, live, dead)
      return door
    },
    calm: () => {
      for (const door of doors) {
        if (!door.isOpen) door.turns += 1
        Object.assign(door, {
          isOpen: true,
          isSettled: true,
          endpoints: live[door.protocol],
          affinityMs: 0,
        })
      }
    },
  }
}

const specOf = (door: Door): ListenerSpec => {
  const id = `${door.protocol}-${door.bind.port}`
  const { protocol, bind, endpoints, affinityMs } = door
  return { id, name: `soak/${id}`, protocol, binds: [bind], endpoints, affinityMs }
}

const change = (
  random: Random,
  door: Door,
  live: ByProtocol<readonly RelayEndpoint[]>,
  dead: ByProtocol<readonly RelayEndpoint[]>,
): void => {
  if (!door.isSteady && random.chance(0.4)) {
    door.isOpen = !door.isOpen
    door.isSettled = false
    door.turns += 1
    return
  }
  const { protocol } = door
  const serving = random.some(live[protocol], random.between(1, live[protocol].length))
  const others = random.some(dead[protocol], random.between(0, dead[protocol].length))
  door.endpoints = random.some([...serving, ...others], serving.length + others.length)
  door.affinityMs = random.chance(0.2) ? 500 : 0
}

const liveEndpoints = async (
  t: Pick<Test, 'teardown'>,
  book: Guestbook,
): Promise<ByProtocol<readonly RelayEndpoint[]>> => {
  const tcp = await Promise.all([0, 1, 2, 3].map(() => startServer(book)))
  const udp = await Promise.all([0, 1].map(startUdpServer))
  t.teardown(async () => {
    await Promise.all([...tcp, ...udp].map(({ close }) => close()))
  })
  return {
    TCP: tcp.map(server => server.endpoint),
    UDP: udp.map(server => server.endpoint),
  }
}

const deadEndpoints = async (
  t: Pick<Test, 'teardown'>,
): Promise<ByProtocol<readonly RelayEndpoint[]>> => ({
  TCP: [
    endpoint(testHost, await freeTcpPort()),
    endpoint(testHost, await freeTcpPort()),
    await silentBackend(t as Test),
  ],
  UDP: [endpoint(testHost, await freeUdpPort())],
})

const openDoors = async (
  live: ByProtocol<readonly RelayEndpoint[]>,
): Promise<readonly Door[]> => {
  const door = async (protocol: Protocol, isSteady: boolean): Promise<Door> => ({
    protocol,
    bind: {
      address: testHost,
      port: await (protocol === 'TCP' ? freeTcpPort() : freeUdpPort()),
    },
    isSteady,
    isOpen: true,
    isSettled: true,
    turns: 0,
    endpoints: live[protocol],
    affinityMs: 0,
  })
  return Promise.all([
    door('TCP', true),
    door('TCP', true),
    door('TCP', false),
    door('TCP', false),
    door('UDP', true),
    door('UDP', false),
  ])
}
