import type { RelayModule } from '../support/relay-process.ts'

/** Throws for a kind or number of workers that there is none of. */
export const relayToSoak = (kind: string, workers: string): RelayModule => {
  if (kind === 'portable') {
    const file = new URL('../support/portable-relay.ts', import.meta.url)
    return { file, exported: 'makePortableRelay' }
  }
  if (kind !== 'linux' || !['1', '2', '4'].includes(workers))
    throw new Error('give --relay linux or portable, and --workers 1, 2 or 4')
  const file = new URL('relays.ts', import.meta.url)
  return { file, exported: `soakedWith${workers}` }
}
