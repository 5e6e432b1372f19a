import type { IpFamily } from '../../util/ip.ts'
import { ToolError } from '../run-tool.ts'
import type { IpvsDeps } from './ipvs-deps.ts'

/**
 * Sets what ipvs needs of the kernel besides rules. Rejects with ToolError when something
 * that it can't do without can't be set.
 */
export const prepareKernel = async (deps: IpvsDeps, family: IpFamily): Promise<void> => {
  const { setSysctl, observer, run, options } = deps
  // Without it nothing that goes through ipvs is masqueraded.
  await setSysctl('net/ipv4/vs/conntrack', '1').catch((error: unknown) => {
    throw new ToolError(`setting net/ipv4/vs/conntrack=1: ${String(error)}`, 'failed', '')
  })
  const wished = [...(await ipvsSysctls(deps)), ...hostSysctls(deps, family)]
  for (const [name, value] of wished) {
    const why = await setSysctl(name, value).then(() => '', String)
    observer.failed(`setting ${name}=${value}`, why)
  }
  const { tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs } = options
  const timeouts = [tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs]
  if (timeouts.some(ms => ms > 0))
    await run('ipvsadm', ['--set', ...timeouts.map(ms => String(Math.ceil(ms / 1000)))])
}

type Setting = readonly [name: string, value: string]

const ipvsSysctls = async ({ read }: IpvsDeps): Promise<readonly Setting[]> => {
  const release = (await read('/proc/sys/kernel/osrelease')) ?? ''
  return [
    // A connection to a destination that is gone ends, and so does what keeps a client there.
    ['net/ipv4/vs/expire_nodest_conn', '1'],
    ['net/ipv4/vs/expire_quiescent_template', '1'],
    ...(delaysReuse(release) ? [['net/ipv4/vs/conn_reuse_mode', '0'] as const] : []),
  ]
}

/**
 * Kernels in which a client's port that is used again within two minutes costs it a second
 * (kubernetes/kubernetes#81775): 4.1 brought the switch, 5.9 made it harmless.
 */
export const delaysReuse = (release: string): boolean => {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(release) ?? []
  const version = Number(major) * 1000 + Number(minor)
  return version >= 4001 && version <= 5008
}

const hostSysctls = ({ options }: IpvsDeps, family: IpFamily): readonly Setting[] => {
  if (family === 'IPv6') return []
  const strict: readonly Setting[] = [
    ['net/ipv4/conf/all/arp_ignore', '1'],
    ['net/ipv4/conf/all/arp_announce', '2'],
  ]
  return [['net/ipv4/ip_forward', '1'], ...(options.strictArp ? strict : [])]
}
