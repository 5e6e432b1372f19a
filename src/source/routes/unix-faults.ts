import { readCheck } from '../../health/check-option.ts'
import { peek } from '../../util/json.ts'
import { show } from '../../util/printable.ts'
import { isUnix } from '../../util/unix-address.ts'
import { socketOptions } from '../options/socket-options.ts'
import type { Listen, Target } from './route-address.ts'
import type { ShapeFault } from './shape-faults.ts'

/** Options that go by the address of a client. */
const byAddress = [
  'affinity',
  'allow',
  'deny',
  'acceptProxy',
  'maxClientConnections',
  'maxClientRate',
]

/** What a route can't have where it listens on, or goes to, a unix socket; and the other way round. */
export const unixFaults = (
  raw: object,
  listen: Listen | undefined,
  targets: readonly (Target & { readonly path: ShapeFault['path'] })[],
): readonly ShapeFault[] => {
  const given = (name: string): boolean => Object.hasOwn(raw, name)
  if (listen === undefined) return []
  const sockets = targets.filter(({ host }) => isUnix(host))
  return [
    ...(isUnix(listen.address) ? addressFaults(raw, given) : []),
    ...(listen.address.startsWith('unix:/')
      ? []
      : Object.keys(socketOptions).filter(given).map(notAPath)),
    ...(listen.protocol === 'UDP'
      ? sockets.map(({ host, path }) => ({
          path,
          message: `${show(host)} is for TCP; give an address and a port, or listen on tcp://`,
        }))
      : []),
    ...(checkPort(peek(raw, 'check')) === undefined
      ? []
      : sockets.slice(0, 1).map(({ host }) => ({
          path: ['check'],
          message: `asks a port, which ${show(host)} has not; give a check without a port`,
        }))),
  ]
}

const addressFaults = (raw: object, given: (name: string) => boolean): ShapeFault[] => [
  ...byAddress.filter(given).map(needsAddress),
  ...(peek(raw, 'balance') === 'maglev' ? [needsAddress('balance')] : []),
]

const needsAddress = (name: string): ShapeFault => ({
  path: [name],
  message:
    'goes by the address of a client, and clients of a unix socket have none; leave it out, or listen on tcp://',
})

const notAPath = (name: string): ShapeFault => ({
  path: [name],
  message: 'is for a route that listens at a path, like unix:/run/db.sock; leave it out',
})

/** What can't be read has its fault already. */
const checkPort = (check: unknown): unknown => {
  if (typeof check === 'object' && check !== null) return peek(check, 'port')
  const read = typeof check === 'string' ? readCheck(check) : ''
  return typeof read === 'string' ? undefined : read.port
}
