import { kernelLacks } from '../kernel-lacks.ts'
import type { RunTool } from '../run-tool.ts'
import { addressesOn, listDevices } from './devices.ts'
import { isKubeProxySet } from './ipset-names.ts'
import {
  deletion,
  ipsetEntries,
  isKubeProxyServer,
  serverText,
  virtualServers,
} from './ipvs-servers.ts'
import { isMissing, type Kind, nothing } from './leftover.ts'

export interface IpvsDeps {
  readonly run: RunTool
  /** The text of a file; undefined when there is none. */
  readonly read: (path: string) => Promise<string | undefined>
}

/**
 * Virtual servers of kube-proxy's ipvs mode. Read from /proc, because kube-proxy needs no
 * ipvsadm and a node of its may have none; only to remove them it takes one.
 */
export const ipvsKind = ({ run, read }: IpvsDeps): Kind => ({
  name: 'ipvs virtual servers',
  find: async () => {
    const all = virtualServers((await read('/proc/net/ip_vs')) ?? '')
    if (all.length === 0) return nothing
    const onDevice = addressesOn(await listDevices(run), 'kube-ipvs0')
    const entries = ipsetEntries(await savedSets(run), isKubeProxySet)
    const own = all.filter(server => isKubeProxyServer(server, onDevice, entries))
    if (own.length === 0) return nothing
    const remove = async () => {
      await run('ipvsadm', ['-R'], { input: `${own.map(deletion).join('\n')}\n` })
      return []
    }
    return { leftovers: [{ what: own.map(serverText), remove }], stays: [] }
  },
})

/** Empty when there can be no sets, or nobody can read them. */
const savedSets = async (run: RunTool): Promise<string> => {
  try {
    return await run('ipset', ['save'])
  } catch (error) {
    if (isMissing(error) || kernelLacks(error)) return ''
    throw error
  }
}
