import type { SocketOptions } from 'node:dgram'

/**
 * The lookup of sockets that are only ever given addresses, never names. node:dgram looks
 * up the address of each datagram it sends; its default takes a turn of the event loop
 * even for a literal.
 */
export const literalLookup: NonNullable<SocketOptions['lookup']> = (
  address,
  options,
  callback,
) => {
  const family = typeof options === 'object' && options.family === 6 ? 6 : 4
  callback(null, address, family)
}
