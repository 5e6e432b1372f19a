import { type AddressRanges, ownRanges } from '../../util/address-ranges.ts'
import type { RelayFront, RelayListener } from '../relay.ts'

/**
 * A listener that has come from another process, with ranges of clients in memory of their own. As they
 * came they are parts of the whole message, which would be copied for each thread that is told of them.
 */
export const withOwnRanges = (listener: RelayListener): RelayListener => {
  const { clients, fronts } = listener
  const isSelective = fronts.some(({ allowedClients }) => allowedClients !== undefined)
  if (clients === undefined && !isSelective) return listener
  return {
    ...listener,
    fronts: fronts.map(withOwn),
    ...(clients && {
      clients: {
        deny: allOwn(clients.deny),
        allow: allOwn(clients.allow),
        probers: allOwn(clients.probers),
      },
    }),
  }
}

const withOwn = (front: RelayFront): RelayFront => ({
  ...front,
  allowedClients: front.allowedClients && ownRanges(front.allowedClients),
})

const allOwn = (
  all: readonly AddressRanges[] | undefined,
): readonly AddressRanges[] | undefined => all?.map(ownRanges)
