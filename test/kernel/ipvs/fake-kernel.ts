import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { splitHostPort } from '../../../src/util/ip.ts'
import { FakeRules } from './fake-rules.ts'

interface FakeServer {
  how: string
  readonly destinations: Map<string, { weight: number; connections: number }>
}

/** As much of a kernel, and of the tools that manage it, as the ipvs mode uses. */
export class FakeKernel {
  readonly servers = new Map<string, FakeServer>()
  readonly sets = new Map<string, { words: string; entries: Set<string> }>()
  /** By rules of somebody's. */
  readonly usedSets = new Set<string>()
  readonly rules = new FakeRules()
  /** Of kube-ipvs0. */
  readonly addresses = new Set<string>()
  readonly elsewhere = new Set(['127.0.0.1', '203.0.113.1', '::1'])
  /** On loopback, with the mark by which a capture knows them. */
  readonly ofCapture = new Set<string>()
  /** On the device that captures of older versions had. */
  readonly ofOldCapture = new Set<string>()
  readonly sysctls: string[] = []
  /** The lines that tools were fed, and the calls of those that were fed none. */
  written: string[] = []
  /** Tools that are not to work. */
  readonly broken = new Set<string>()
  /** modprobe brings those of modules. */
  readonly missingFiles = new Set<string>()
  readonly schedulers = new Set(['rr', 'wlc', 'mh', 'wrr'])
  /** How many processes there were. */
  calls = 0
  /** Which call, of all there are, is killed before it has done anything. */
  killedCall = 0
  /** What ipvsadm waits for before it changes something. */
  held: Promise<void> = Promise.resolve()
  deviceIndex = 0
  osrelease = '6.1.0'

  readonly run: RunTool = async (command, args, { input = '' } = {}) => {
    this.calls += 1
    if (this.calls === this.killedCall) throw new ToolError('killed', 'timeout', '')
    const tool = command === 'sh' ? 'ipvsadm' : command
    if (command === 'sh') await this.held
    const isIptables = /^ip6?tables/.test(tool)
    if (this.broken.has(isIptables ? 'iptables' : tool))
      throw new ToolError(`${tool}: broken`, 'failed', 'broken')
    if (tool === 'ipvsadm' && this.missingFiles.has('/proc/net/ip_vs'))
      throw new ToolError("Can't initialize ipvs", 'failed', '')
    if (args.includes('--version')) return `${command} v1.8.9 (nf_tables)`
    const call = [command, ...args].join(' ')
    const lines = input.split('\n').filter(Boolean)
    if (!/-S|save|show|list|set dev/.test(`${call} ${input.slice(0, 20)}`))
      this.written.push(...(lines.length > 0 ? lines : [call]))
    if (command === 'modprobe') this.missingFiles.delete(moduleFiles[args[0] ?? ''] ?? '')
    if (command === 'ipvsadm' && args[0] !== '-Sn') {
      const said = this.#server(args.join(' '))
      if (said !== '') throw new ToolError(said, 'failed', said)
    }
    if (isIptables && command.endsWith('-save')) return this.rules.save(args[1] ?? '')
    if (isIptables) return this.rules.restore(input)
    if (call === 'ipvsadm -Sn') return this.#savedServers()
    if (call === 'ipset save') return this.#savedSets()
    if (call === 'ipset list -t') return this.#listedSets()
    if (call.startsWith('ip -j')) return this.#devices()
    if (call === 'ip link add kube-ipvs0 type dummy') this.deviceIndex += 1
    if (command === 'sh') return lines.map(line => this.#server(line)).join('')
    if (command === 'ipset')
      for (const line of lines.length > 0 ? lines : [args.join(' ')]) this.#set(line)
    if (command === 'ip') for (const line of lines) this.#address(line)
    return ''
  }

  /** What is read of settings about it. */
  conntrack = '1\n'

  readonly read = async (path: string): Promise<string | undefined> => {
    if (this.missingFiles.has(path)) return undefined
    if (/conntrack/.test(path)) return this.conntrack
    if (path === '/proc/sys/kernel/osrelease') return `${this.osrelease}\n`
    if (path === '/proc/net/ip_vs') return this.#procIpVs()
    if (path.endsWith('/ifindex'))
      return this.deviceIndex === 0 ? undefined : `${this.deviceIndex}\n`
    return undefined
  }

  readonly setSysctl = async (name: string, value: string): Promise<void> =>
    void this.sysctls.push(`${name}=${value}`)

  /** What was written since the last call. */
  takeWritten(): readonly string[] {
    const { written } = this
    this.written = []
    return written
  }

  destinations(id: string): Readonly<Record<string, number>> {
    const all =
      this.servers.get(id)?.destinations ?? new Map<string, { weight: number }>()
    return Object.fromEntries(Array.from(all, ([name, { weight }]) => [name, weight]))
  }

  entries(set: string): readonly string[] {
    return [...(this.sets.get(set)?.entries ?? [])]
  }

  #server(line: string): string {
    const [verb = '', flag = '', address = '', ...rest] = line.split(' ')
    const id = `${flag} ${address}`
    const server = this.servers.get(id)
    if (verb === '-A' && server !== undefined) return 'Service already exists\n'
    if (verb === '-A' && !this.schedulers.has(rest[1] ?? '')) return 'No scheduler\n'
    if (verb === '-A')
      this.servers.set(id, { how: rest.join(' '), destinations: new Map() })
    else if (server === undefined) return 'No such service\n'
    else if (verb === '-E') server.how = rest.join(' ')
    else if (verb === '-D') this.servers.delete(id)
    else {
      const [, destination = ''] = rest
      const there = server.destinations.get(destination)
      if ((verb === '-a') === (there !== undefined)) return 'No such destination\n'
      const weight = Number(rest.at(-1))
      const connections = there?.connections ?? 0
      if (verb === '-d') server.destinations.delete(destination)
      else server.destinations.set(destination, { weight, connections })
    }
    return ''
  }

  #set(line: string): void {
    const [verb = '', name = '', ...rest] = line.split(' ')
    const set = this.sets.get(name)
    if (verb === 'create')
      this.sets.set(name, { words: rest.join(' '), entries: set?.entries ?? new Set() })
    else if (set === undefined) throw new ToolError(`no set: ${line}`, 'failed', line)
    else if (verb === 'add') set.entries.add(rest.join(' '))
    else if (verb === 'del') set.entries.delete(rest.join(' '))
    else if (verb === 'flush') set.entries.clear()
    else if (verb === 'destroy' && this.usedSets.has(name))
      throw new ToolError('it is in use', 'failed', 'in use')
    else if (verb === 'destroy') this.sets.delete(name)
    else if (verb === 'swap') {
      const [other = ''] = rest
      const with_ = this.sets.get(other)
      if (with_ === undefined) throw new ToolError(`no set: ${line}`, 'failed', line)
      const [sort, other_] = [set, with_].map(({ words }) => words.split(' hashsize')[0])
      if (sort !== other_) throw new ToolError('type does not match', 'failed', line)
      this.sets.set(name, with_)
      this.sets.set(other, set)
    }
  }

  #address(line: string): void {
    const [, , verb, address] = /^(address) (add|delete) ([^/]+)\//.exec(line) ?? []
    if (address === undefined) return
    if (verb === 'add') this.addresses.add(address)
    else this.addresses.delete(address)
  }

  #savedServers(): string {
    return Array.from(this.servers, ([id, { how, destinations }]) =>
      [
        `-A ${id} ${how}`,
        ...Array.from(
          destinations,
          ([destination, { weight }]) => `-a ${id} -r ${destination} -m -w ${weight}`,
        ),
      ].join('\n'),
    ).join('\n')
  }

  #savedSets(): string {
    return Array.from(this.sets, ([name, { words, entries }]) =>
      [
        `create ${name} ${words} bucketsize 12 initval 0x1234`,
        ...Array.from(entries, entry => `add ${name} ${entry}`),
      ].join('\n'),
    ).join('\n')
  }

  #listedSets(): string {
    return Array.from(
      this.sets,
      ([name, { entries }]) =>
        `Name: ${name}\nType: hash:ip\nReferences: 1\nNumber of entries: ${entries.size}\n`,
    ).join('\n')
  }

  #devices(): string {
    const infos = (addresses: Iterable<string>, mark: { metric?: number } = {}) =>
      Array.from(addresses, local => ({
        ...mark,
        local,
        prefixlen: local.includes(':') ? 128 : 32,
      }))
    return JSON.stringify([
      { ifname: 'eth0', addr_info: infos(this.elsewhere) },
      {
        ifname: 'lo',
        addr_info: infos(this.ofCapture, { metric: 1 }),
      },
      { ifname: 'usher0', addr_info: infos(this.ofOldCapture) },
      { ifname: 'kube-ipvs0', addr_info: infos(this.addresses) },
    ])
  }

  #procIpVs(): string {
    const text = Array.from(this.servers, ([id, { how, destinations }]) =>
      [
        `${id.startsWith('-t') ? 'TCP ' : 'UDP '} ${hexOf(id.slice(3))} ${how.slice(3)}`,
        ...Array.from(
          destinations,
          ([destination, { weight, connections }]) =>
            `  -> ${hexOf(destination)}      Masq    ${weight}      ${connections}          0`,
        ),
      ].join('\n'),
    )
    return `IP Virtual Server version 1.2.1 (size=4096)\n${text.join('\n')}\n`
  }
}

const moduleFiles: Readonly<Record<string, string>> = {
  ip_vs: '/proc/net/ip_vs',
  nf_conntrack: '/proc/sys/net/netfilter/nf_conntrack_max',
}

const hexOf = (hostPort: string): string => {
  const { host, port } = splitHostPort(hostPort) ?? { host: '', port: 0 }
  const hex = (value: number, length: number): string =>
    value.toString(16).toUpperCase().padStart(length, '0')
  const address = host.includes(':')
    ? `[${host}]`
    : host
        .split('.')
        .map(byte => hex(Number(byte), 2))
        .join('')
  return `${address}:${hex(port, 4)}`
}
