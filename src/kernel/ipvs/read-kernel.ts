import { cidrContains, parseCidr } from '../../util/cidr.ts'
import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { ToolError } from '../run-tool.ts'
import {
  type DeviceAddresses,
  deviceName,
  ensureDevice,
  readAddresses,
} from './device.ts'
import type { IpvsDeps } from './ipvs-deps.ts'
import { longTimeoutMs } from './ipvs-tools.ts'
import type { KnownServer, KnownSet, KnownState } from './wanted-state.ts'
import { addressOf, isUdp, portOf, type ServerId } from './server-id.ts'
import { type SetKind, setName, spareName, vipSetKinds } from './set-names.ts'
import { savedServers, savedSets, wrongTypes } from './saved.ts'

/** All that the kernel has of one family, others' too. */
export interface KernelContents {
  readonly servers: ReadonlyMap<ServerId, KnownServer>
  readonly sets: Map<SetKind, KnownSet>
  readonly addresses: DeviceAddresses
}

/** Where the kernel's number of the device stands; another one is another device. */
const indexPath = `/sys/class/net/${deviceName}/ifindex`

export const deviceIndex = async ({ read }: Pick<IpvsDeps, 'read'>): Promise<string> =>
  ((await read(indexPath)) ?? '').trim()

/** Makes kube-ipvs0 where it is missing. Rejects with ToolError. */
export const readKernel = async (
  deps: IpvsDeps,
  family: IpFamily,
): Promise<KernelContents> => {
  const { run } = deps
  await ensureDevice(run, (await deviceIndex(deps)) !== '')
  const options = { timeoutMs: longTimeoutMs }
  const [servers, saved, addresses] = await Promise.all([
    run('ipvsadm', ['-Sn'], options).then(text => savedServers(text, family)),
    run('ipset', ['save'], options),
    readAddresses(run, family),
  ])
  const sets = await savedSets(saved, family)
  for (const [kind, why] of wrongTypes(sets, family)) {
    // By its name kube-proxy's; it can't go while rules use it.
    const gone = run('ipset', ['destroy', setName(family, kind)])
    await gone.catch(({ message }: Error) => {
      throw new ToolError(`${why}, and does not go: ${message}`, 'failed', '')
    })
    sets.delete(kind)
  }
  // Of a sync that was ended half-way; of whichever type it is, it would be in the way.
  const spare = spareName(family)
  if (`\n${saved}`.includes(`\ncreate ${spare} `)) await run('ipset', ['destroy', spare])
  return { servers, sets, addresses }
}

/**
 * What of it is this mode's to change: virtual servers that are wanted, and those that
 * were surely made for a Service, because their address is on kube-ipvs0 or a set of
 * kube-proxy's names them. The rest, and what excludeCIDRs names, is another program's;
 * kube-proxy takes all others out.
 */
export const knownState = async (
  { servers, sets, addresses }: KernelContents,
  isWanted: (id: ServerId) => boolean,
  excludeCidrs: readonly string[],
): Promise<KnownState> => {
  const excluded = excludeCidrs.flatMap(text => parseCidr(text) ?? [])
  const isOwn = (id: ServerId): boolean => {
    if (isWanted(id)) return true
    const address = addressOf(id)
    return (
      !excluded.some(cidr => cidrContains(cidr, address)) &&
      (addresses.own.has(address) || isNamed(id, sets))
    )
  }
  const own = new Map<ServerId, KnownServer>()
  await forEachYielding(servers, ([id, server]) => {
    if (isOwn(id)) own.set(id, server)
  })
  return { servers: own, sets, addresses: addresses.own }
}

const isNamed = (id: ServerId, sets: ReadonlyMap<SetKind, KnownSet>): boolean => {
  const port = portOf(id)
  const entry = `${addressOf(id)},${isUdp(id) ? 'udp' : 'tcp'}:${port}`
  return (
    vipSetKinds.some(kind => sets.get(kind)?.entries.has(entry)) ||
    sets.get(isUdp(id) ? 'NODE-PORT-UDP' : 'NODE-PORT-TCP')?.entries.has(String(port)) ===
      true
  )
}
