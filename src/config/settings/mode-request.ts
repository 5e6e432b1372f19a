import type { ModeRequest, WantedMode } from '../../mode/choose-mode.ts'
import type { Given } from './from-flags.ts'
import { ofUserspace } from './no-effect.ts'

/**
 * Which mode is asked for, and by what. Without a word of it a flag of userspace mode's own
 * is one: who gives it wants what it does.
 */
export const modeRequest = (
  mode: string,
  given: Given,
  file: string | undefined,
): ModeRequest => {
  if (isWanted(mode)) return { mode, by: file ?? '--proxy-mode' }
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

const isWanted = (mode: string): mode is Exclude<WantedMode, ''> =>
  ['userspace', 'iptables', 'ipvs', 'nftables'].includes(mode)
