import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { makeNetns, type Netns } from '../../support/netns.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { proxyAddresses } from '../steered-table.ts'

/** A test at whose end a world's processes end. */
export interface Teardown {
  teardown(callback: () => void): unknown
}

/** What becomes of one connection or datagram: `answered by port 4001`, or why not. */
export type Outcome = string

export interface Host {
  readonly netns: Netns
  readonly addresses: Readonly<Record<IpFamily, string>>
  /** Answers with its port; gives the port that it has. */
  listen(protocol: 'TCP' | 'UDP', address: string, port: number): Promise<number>
  stopListening(): Promise<void>
  /** `silent` when nothing came within `ms`. */
  dial(
    protocol: 'TCP' | 'UDP',
    address: string,
    port: number,
    ms?: number,
  ): Promise<Outcome>
  /** Opens a connection that stays; its further lines are answered. */
  open(address: string, port: number): Promise<Outcome>
  /** Writes on the open one. */
  write(): Promise<Outcome>
}

export interface World {
  readonly node: Host
  /** Behind an interface that has no IPv4 address on the node's side, as with Calico. */
  readonly pod: Host
  readonly outside: Host
}

/** A node with a pod and a neighbour, all in network namespaces. */
export const makeWorld = async (test: Teardown): Promise<World> => {
  const [node, pod, outside] = await Promise.all([
    makeNetns('nft-node'),
    makeNetns('nft-pod'),
    makeNetns('nft-out'),
  ])
  const ip = (netns: Netns, line: string) => netns.run('ip', line.split(' '))
  const sysctl = (line: string) => node.run('sysctl', ['-qw', ...line.split(' ')])
  await ip(node, `link add pod type veth peer name eth0 netns ${pod.name}`)
  await ip(node, `link add out type veth peer name eth0 netns ${outside.name}`)
  await sysctl(
    'net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.pod.proxy_arp=1 net.ipv4.neigh.pod.proxy_delay=0 net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0',
  )
  await ip(node, 'link set pod up')
  await ip(node, 'link set out up')
  await ip(node, 'addr add 172.20.0.1/24 dev out')
  await ip(node, 'addr add fd20::1/64 dev out nodad')
  await ip(node, 'addr add fd44::1/64 dev pod nodad')
  await ip(node, 'route add 10.244.1.2 dev pod')
  await ip(node, 'route add default via 172.20.0.2')
  await ip(node, '-6 route add default via fd20::2')
  await ip(node, `route add local ${proxyAddresses.IPv4} dev lo proto 117`)
  await ip(node, `addr add ${proxyAddresses.IPv6}/128 dev lo nodad preferred_lft 0`)
  await ip(pod, 'addr add 10.244.1.2/24 dev eth0')
  await ip(pod, 'addr add fd44::2/64 dev eth0 nodad')
  await ip(outside, 'addr add 172.20.0.2/24 dev eth0')
  await ip(outside, 'addr add fd20::2/64 dev eth0 nodad')
  for (const [netns, via] of [
    [pod, 'fd44::1'],
    [outside, 'fd20::1'],
  ] as const) {
    await ip(netns, 'link set eth0 up')
    await ip(
      netns,
      netns === pod ? 'route add default dev eth0' : 'route add default via 172.20.0.1',
    )
    await ip(netns, `-6 route add default via ${via}`)
  }
  return {
    node: host(test, node, { IPv4: '172.20.0.1', IPv6: 'fd20::1' }),
    pod: host(test, pod, { IPv4: '10.244.1.2', IPv6: 'fd44::2' }),
    outside: host(test, outside, { IPv4: '172.20.0.2', IPv6: 'fd20::2' }),
  }
}

/** One process in the namespace does all that is asked, for each would cost a start. */
export const host = (
  test: Teardown,
  netns: Netns,
  addresses: Host['addresses'],
): Host => {
  const [command = '', ...args] = netns.prefix
  const child = spawn(
    command,
    [...args, process.execPath, '--input-type=module', '-e', agent],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  test.teardown(() => child.kill('SIGKILL'))
  const ask = asker(child)
  return {
    netns,
    addresses,
    listen: async (protocol, address, port) =>
      Number(await ask({ op: 'listen', protocol, address, port })),
    stopListening: async () => void (await ask({ op: 'stop' })),
    dial: (protocol, address, port, ms = 600) =>
      ask({ op: 'dial', protocol, address, port, ms }),
    open: (address, port) => ask({ op: 'open', address, port }),
    write: () => ask({ op: 'write' }),
  }
}

const asker = (child: ChildProcess) => {
  const waiting = new Map<number, (result: string) => void>()
  let last = 0
  if (child.stdout === null) throw new Error('the agent has no output')
  createInterface({ input: child.stdout }).on('line', line => {
    const { id, result } = JSON.parse(line) as { id: number; result: string }
    waiting.get(id)?.(result)
    waiting.delete(id)
  })
  return (request: object): Promise<string> =>
    new Promise(resolve => {
      const id = ++last
      waiting.set(id, resolve)
      child.stdin?.write(`${JSON.stringify({ ...request, id })}\n`)
    })
}

const agent = `
import net from 'node:net'
import dgram from 'node:dgram'
import { createInterface } from 'node:readline'
const servers = []
let stays
const words = error => (error.code === 'ECONNREFUSED' ? 'refused' : error.code)
const family = address => (address.includes(':') ? 'udp6' : 'udp4')
const ops = {
  listen: ({ protocol, address, port }, done) => {
    if (protocol === 'TCP') {
      const server = net.createServer(socket => {
        const answer = () => socket.write('answered by port ' + server.address().port)
        answer()
        socket.on('data', answer).on('end', () => socket.end()).on('error', () => {})
      })
      server.on('error', error => done(error.code))
      server.listen(port, address, () => done(server.address().port))
      servers.push(server)
    } else {
      const socket = dgram.createSocket(family(address))
      const answer = 'answered by port '
      socket.on('message', (_, { port, address }) => socket.send(answer + socket.address().port, port, address))
      socket.on('error', error => done(error.code))
      socket.bind(port, address, () => done(socket.address().port))
      servers.push(socket)
    }
  },
  stop: (_, done) => {
    for (const server of servers.splice(0)) server.close()
    done('')
  },
  dial: ({ protocol, address, port, ms }, done) => {
    const timer = setTimeout(() => end('silent'), ms)
    let end
    if (protocol === 'TCP') {
      const socket = net.connect(port, address)
      end = result => { clearTimeout(timer); socket.destroy(); done(result) }
      socket.once('data', data => end(String(data))).on('error', error => end(words(error)))
    } else {
      const socket = dgram.createSocket(family(address))
      let ended = false
      end = result => { if (ended) return; ended = true; clearTimeout(timer); socket.close(); done(result) }
      socket.on('message', data => end(String(data))).on('error', error => end(words(error)))
      socket.connect(port, address, error => (error ? end(words(error)) : socket.send('hi')))
    }
  },
  open: ({ address, port }, done) => {
    setTimeout(() => done('silent'), 2000).unref()
    stays = net.connect(port, address)
    stays.once('data', data => done(String(data))).on('error', error => done(words(error)))
  },
  write: (_, done) => {
    setTimeout(() => done('silent'), 2000).unref()
    stays.once('data', data => done(String(data)))
    stays.write('x')
  },
}
createInterface({ input: process.stdin }).on('line', line => {
  const request = JSON.parse(line)
  const done = result => console.log(JSON.stringify({ id: request.id, result: String(result) }))
  ops[request.op](request, done)
})
`
