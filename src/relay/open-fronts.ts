import { isEmpty } from '../util/address-ranges.ts'
import type {
  Bind,
  BindState,
  EndpointChoice,
  RelayFront,
  RelayListener,
} from './relay.ts'

/** Addresses of a listener to listen on, and those to close, with the reason. */
export interface OpenFronts {
  readonly open: readonly Bind[]
  readonly closed: readonly BindState[]
}

/** Open are those with clients that may connect, and endpoints for them, or a hold. */
export const openFronts = (listener: RelayListener): OpenFronts => {
  const { fronts } = listener
  const open: Bind[] = []
  const closed: BindState[] = []
  const listed = usableEndpoints(listener)
  for (const front of fronts) {
    if (isOpen(front, listed, holdsClients(listener))) open.push(...front.binds)
    else
      for (const bind of front.binds) closed.push(closedState(bind, front.closedReason))
  }
  return { open, closed }
}

/** Keys of the endpoints that keep sockets open. */
export const usableEndpoints = ({
  endpoints,
  protocol,
  drained = [],
}: RelayListener): ReadonlySet<string> => {
  const usable = new Set(endpoints.map(({ key }) => key))
  // UDP flows that stay need their socket.
  if (protocol === 'TCP') for (const { key } of drained) usable.delete(key)
  return usable
}

/** Whether clients wait for endpoints, instead of being refused. */
export const holdsClients = ({ retry, paused = false }: RelayListener): boolean =>
  paused || (retry?.holdMs ?? 0) > 0

export const allClosed = (
  { fronts }: RelayListener,
  reason: string,
): readonly BindState[] =>
  fronts.flatMap(({ binds }) => binds.map(bind => closedState(bind, reason)))

const closedState = (bind: Bind, reason: string): BindState => ({
  bind,
  state: 'closed',
  reason,
})

const isOpen = (
  { endpoints, endpointsFromNode = [], allowedClients }: RelayFront,
  listed: ReadonlySet<string>,
  holds: boolean,
): boolean => {
  const isAny = (choice: EndpointChoice): boolean =>
    choice === 'all' ? listed.size > 0 : choice.some(key => listed.has(key))
  const isAnybodyAllowed = allowedClients === undefined || !isEmpty(allowedClients)
  return isAnybodyAllowed && (holds || isAny(endpoints) || isAny(endpointsFromNode))
}
