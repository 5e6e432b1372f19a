import type { ModeRequest } from '../../mode/fallback-mode.ts'
import { isModeName } from '../../mode/mode.ts'
import type { Row } from '../row.ts'
import type { Given } from '../tokens.ts'

/**
 * How `has no effect` goes on for a flag or field when `mode` is asked for; undefined when
 * it has one, or may have: while no mode is asked for it is not known which will run.
 */
export const noEffectReason = (
  { noEffect, modes }: Pick<Row, 'noEffect' | 'modes'>,
  mode: string,
): string | undefined => {
  if (noEffect !== undefined) return noEffect
  const has = modes === undefined || mode === '' || modes.some(one => one === mode)
  return has ? undefined : `in ${mode} mode`
}

/** Flags that only userspace mode has: giving one asks for that mode. */
export const ofUserspace = [
  'capture',
  'relay',
  'relay-workers',
  'proxy-port-range',
  'keep-rules',
  'state-dir',
] as const satisfies readonly string[]

/** Of those, what the relay of Services that ask for it in nftables mode goes by, too. */
const ofAnyRelay: ReadonlySet<string> = new Set([
  'relay',
  'relay-workers',
  'proxy-port-range',
  'state-dir',
])

/** Whether one of them does nothing unless userspace takes the place of `mode`. */
export const isForFallBack = (
  flag: (typeof ofUserspace)[number],
  mode: string,
): boolean =>
  mode !== '' && mode !== 'userspace' && !(mode === 'nftables' && ofAnyRelay.has(flag))

/**
 * Which mode is asked for, and by what. Where nothing names it, a flag that
 * only userspace mode has asks for that mode.
 */
export const modeRequest = (
  mode: string,
  given: Given,
  file: string | undefined,
): ModeRequest => {
  if (isModeName(mode)) return { mode, by: file ?? '--proxy-mode' }
  const flag = ofUserspace.find(name => asks(name, given.get(name)?.at(-1)))
  return flag === undefined
    ? { mode: '', by: '' }
    : { mode: 'userspace', by: `--${flag}, which is of userspace mode` }
}

const asks = (flag: (typeof ofUserspace)[number], text: string | undefined): boolean =>
  text !== undefined &&
  text !== '' &&
  text !== 'false' &&
  // Any port, says kube-proxy.
  text !== '0-0' &&
  !(flag === 'capture' && text === 'auto')
