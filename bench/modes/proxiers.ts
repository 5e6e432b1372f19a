import { readFile, writeFile } from 'node:fs/promises'
import { iptablesKind } from '../../src/kernel/iptables/iptables-proxier.ts'
import { nftablesKind } from '../../src/kernel/nftables/nftables-kind.ts'
import { ipvsKind } from '../../src/kernel/ipvs/ipvs-proxier.ts'
import type { KernelSettings, Proxier, ProxierKind } from '../../src/kernel/proxier.ts'
import type { RunTool } from '../../src/kernel/run-tool.ts'
import type { BackendMode } from '../../src/kernel/xtables/backend.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { KubeProxyLayout } from './kube-proxy-layout.ts'
import { plainIpvs } from '../../test/support/plain-ipvs.ts'

/** As `usher run` has them without flags, on a node of one address. */
export const settings: KernelSettings = {
  masqueradeAll: false,
  masqueradeBit: 14,
  localhostNodePorts: true,
  localDetector: { by: 'source', cidrs: ['10.244.0.0/16'] },
  nodePortCidrs: undefined,
  nodeAddresses: ['192.0.2.1'],
  nodeName: 'node-1',
  flowtableDevices: [],
  serviceCidrs: ['10.96.0.0/12'],
}

/** What can't be done is reported by the sync. */
const observer = { restoreFailed: () => {}, failed: () => {} }

const iptables =
  (backend: BackendMode) =>
  (run: RunTool): ProxierKind =>
    iptablesKind({ run, clock, observer, backend })

const ipvs = (run: RunTool): ProxierKind =>
  ipvsKind({
    run,
    clock,
    observer,
    options: plainIpvs,
    read: path => readFile(path, 'utf8').catch(() => undefined),
    setSysctl: (name, value) => writeFile(`/proc/sys/${name}`, value),
  })

export const nftablesName = 'mode nftables'

/** A mode, and by what it writes. */
const kinds: Readonly<Record<string, (run: RunTool) => ProxierKind>> = {
  [nftablesName]: run => nftablesKind({ run, clock, observer }),
  'mode iptables (nft)': iptables('nft'),
  'mode iptables (legacy)': iptables('legacy'),
  'mode ipvs': ipvs,
}

/** What Usher's nftables mode is compared with. */
export const kubeProxyName = "kube-proxy's nftables layout"

export const measuredProxiers: readonly string[] = [...Object.keys(kinds), kubeProxyName]

/** Its time grows with the square of Services: above these it is measured only when named. */
const mostForKubeProxy = 5000

/** Those whose names have one of the words in them; without words all that end in time. */
export const chooseProxiers = (
  words: readonly string[],
  services: number,
): readonly string[] =>
  words.length === 0
    ? measuredProxiers.filter(
        name => name !== kubeProxyName || services <= mostForKubeProxy,
      )
    : measuredProxiers.filter(name => words.some(word => name.includes(word)))

/** Rejects with the reason where it doesn't work. */
export const proxierOf = async (name: string, run: RunTool): Promise<Proxier> => {
  if (name === kubeProxyName) return new KubeProxyLayout(run)
  const kind = kinds[name]?.(run)
  if (kind === undefined) throw new Error(`there is no ${name}`)
  const { usable, detail } = await kind.probe('IPv4')
  if (!usable) throw new Error(detail)
  return kind.proxier('IPv4')
}
