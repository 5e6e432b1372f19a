import { probeLinuxRelay } from '../../src/relay/sockets/linux/probe.ts'

/**
 * For the `skip` of tests of the Linux relay: why it can't run here (another system, or
 * koffi, which is optional, is not installed), else false.
 */
export const linuxRelaySkip = (): string | false => {
  const probed = probeLinuxRelay()
  return 'reason' in probed ? probed.reason : false
}
