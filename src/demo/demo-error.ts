/** Why the demo can't go on, in words for whoever typed the command. */
export class DemoError extends Error {
  override readonly name = 'DemoError'
}

/**
 * Says that a port is taken. Two demos use the same addresses, so another one is the
 * likeliest reason.
 */
export const portInUse = (address: string, wantedBy: string): string =>
  `${address} (${wantedBy}) is already in use.\n` +
  '  Is another demo running? Stop it, or whatever else listens there, and try again.'
