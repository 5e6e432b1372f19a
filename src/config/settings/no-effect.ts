import type { Row } from '../row.ts'

/**
 * How `has no effect` goes on for a flag or field when `mode` is asked for; undefined when
 * it has one, or may have: without a word of the mode it is not known which will run.
 */
export const whyNoEffect = (
  { noEffect, modes }: Pick<Row, 'noEffect' | 'modes'>,
  mode: string,
): string | undefined => {
  if (noEffect !== undefined) return noEffect
  const taken = mode === 'nftables' ? 'iptables' : mode
  const has = modes === undefined || taken === '' || modes.some(one => one === taken)
  return has ? undefined : `in ${taken} mode`
}

/** Flags that only userspace mode has, and so are a word of the mode. */
export const ofUserspace = [
  'capture',
  'relay',
  'relay-workers',
  'proxy-port-range',
  'keep-rules',
  'state-dir',
] as const satisfies readonly string[]
