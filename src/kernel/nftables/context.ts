import { disjoint } from '../nft/clients.ts'
import { type FamilyWords, familyWords } from '../nft/tables.ts'
import type { KernelSettings } from '../proxier.ts'
import type { IpFamily } from '../../util/ip.ts'

/**
 * How a chain finds an endpoint. `shared`: in one map of all Services' endpoints, with one chain
 * for each number of them. `own`: in a map of each Service's own, as kube-proxy has it, whose
 * cost grows with the square of their number; for tools and kernels that don't take the other.
 */
export type Form = 'shared' | 'own'

/** What the rules of a family go by besides Services. */
export interface Context {
  readonly family: IpFamily
  readonly form: Form
  readonly words: FamilyWords
  /** The fields of a VIP's key: address, protocol and port. */
  readonly vip: string
  /** Those of a node port's key. */
  readonly nodePort: string
  /** Marks a packet to be masqueraded. */
  readonly mark: string
  /** The mark alone, as in `0x4000`. */
  readonly bit: string
  /** Matches for packets of this node's pods; none where they are not known. */
  readonly ifLocal: readonly string[]
  /** What comes before `mark` for clients of ClusterIPs: '' for all, undefined for none. */
  readonly masqueraded: string | undefined
  /** A match for packets to those of the node's addresses that answer node ports. */
  readonly toNode: string
  /** Canonical; what is no ClusterIP there is dropped. */
  readonly serviceCidrs: readonly string[]
  /** Devices of the flowtable; none where there is none. */
  readonly flowtableDevices: readonly string[]
  /** Whether an endpoint may be on this node, by the name of its node. */
  readonly isHere: (nodeName: string) => boolean
}

export const makeContext = (
  family: IpFamily,
  form: Form,
  settings: KernelSettings,
): Context => {
  const words = familyWords(family)
  const { family: ip } = words
  const bit = `0x${(2 ** settings.masqueradeBit).toString(16)}`
  return {
    family,
    form,
    words,
    vip: `${ip} daddr . meta l4proto . th dport`,
    nodePort: 'meta l4proto . th dport',
    mark: `meta mark set meta mark or ${bit}`,
    bit,
    ifLocal: ifLocal(ip, settings.localDetector),
    masqueraded: settings.masqueradeAll ? '' : ifNotLocal(ip, settings.localDetector),
    toNode: toNode(family, settings),
    serviceCidrs: disjoint(settings.serviceCidrs),
    flowtableDevices: settings.flowtableDevices,
    isHere: nodeName => nodeName === '' || nodeName === settings.nodeName,
  }
}

/** Those of the settings that a context goes by, as text to compare. */
export const settingsText = ({
  localhostNodePorts: _ofTheRelay,
  nodeAddresses: _ofOtherModes,
  ...settings
}: KernelSettings): string => JSON.stringify(settings)

type Detector = KernelSettings['localDetector']

const ifLocal = (ip: string, detector: Detector): readonly string[] =>
  detector.by === 'none' ? [] : [localMatch(ip, detector, '')]

const ifNotLocal = (ip: string, detector: Detector): string | undefined =>
  detector.by === 'none' ? undefined : `${localMatch(ip, detector, '!= ')} `

const localMatch = (
  ip: string,
  detector: Exclude<Detector, { by: 'none' }>,
  not: '' | '!= ',
): string => {
  if (detector.by === 'source')
    return `${ip} saddr ${not}{ ${disjoint(detector.cidrs).join(', ')} }`
  const name = detector.by === 'bridge' ? detector.name : `${detector.prefix}*`
  return `iifname ${not}"${name}"`
}

/** Node ports on loopback are not for the kernel: its answers would come from elsewhere. */
const toNode = (family: IpFamily, { nodePortCidrs }: KernelSettings): string => {
  const { family: ip } = familyWords(family)
  const loopback = family === 'IPv4' ? '127.0.0.0/8' : '::1'
  const some =
    nodePortCidrs === undefined
      ? ''
      : ` ${ip} daddr { ${disjoint(nodePortCidrs).join(', ')} }`
  return `fib daddr type local ${ip} daddr != ${loopback}${some}`
}
