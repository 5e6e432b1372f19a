import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, rmdir } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { Deferred } from '../../../src/util/deferred.ts'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'

/** Where cgroup v2 is, alone or beside v1. */
const root = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find(path =>
  existsSync(`${path}/cgroup.controllers`),
)

const groupProblem = (): string => {
  if (process.getuid?.() !== 0) return 'BPF programs need root'
  if (root === undefined) return 'there is no cgroup v2 here'
  try {
    const bpf = new Bpf()
    bpf.close(
      bpf.createMap({
        name: 'usher_try',
        type: 'hash',
        keySize: 8,
        valueSize: 8,
        entries: 1,
      }),
    )
    return ''
  } catch (error) {
    return `bpf(2) is not to be had here: ${(error as Error).message}`
  }
}

const why = groupProblem()
export const skip = why === '' ? false : why

export interface Answer {
  readonly said?: string
  readonly peer?: string
  readonly error?: string
  /** An error that a socket was told of without being asked. */
  readonly told?: string
}

/** A program in a cgroup and a network namespace. */
export interface Client {
  readonly serve: (address: string, port?: number) => Promise<number>
  readonly tcp: (address: string, port: number) => Promise<Answer>
  readonly udp: (
    address: string,
    port: number,
    socket: {
      readonly name: string
      readonly connected?: true
      readonly localPort?: number
    },
  ) => Promise<Answer>
  /** Dials at the first time; later it says whether that connection goes on. */
  readonly keepTcp: (address: string, port: number, name: string) => Promise<Answer>
  /** Connects sockets of UDP for so long; nothing is sent. Gives how many. */
  readonly connectUdp: (address: string, port: number, ms: number) => Promise<number>
  /** The text at a URL. */
  readonly get: (url: string) => Promise<string>
}

/** A network namespace: one of the program's own, that of the test, or one that has a name. */
export type Where = 'own' | 'the host' | { readonly name: string }

export interface Group {
  readonly path: string
  /** In a network namespace, with `lo` up; of its own where nothing is said. */
  readonly client: (where?: Where) => Promise<Client>
  /** What goes before a command line, so that its program is in the group from the start. */
  readonly prefix: (where: Where) => readonly string[]
}

/** A cgroup of the test's own, which ends with the file. */
export const makeGroup = async (): Promise<Group> => {
  const path = `${root}/usher-test-${process.pid}-${randomBytes(3).toString('hex')}`
  await mkdir(path)
  t.teardown(() => rmdir(path))
  const prefix = (where: Where): readonly string[] => [
    ...namespaceOf(where),
    'sh',
    '-c',
    'ip link set lo up && echo $$ > "$0/cgroup.procs" && exec "$@"',
    path,
  ]
  return { path, prefix, client: async (where = 'own') => startClient(prefix(where)) }
}

const namespaceOf = (where: Where): readonly string[] => {
  if (where === 'the host') return []
  if (where === 'own') return ['unshare', '--net']
  // `ip netns exec` would hide /sys/fs/cgroup.
  return ['nsenter', `--net=/run/netns/${where.name}`]
}

const program = fileURLToPath(new URL('client-main.mjs', import.meta.url))

const startClient = (prefix: readonly string[]): Client => {
  const [command = '', ...args] = prefix
  const child = spawn(command, [...args, process.execPath, program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(async () => {
    child.stdin.end()
    if (child.exitCode === null) await once(child, 'exit')
  })
  const ask = asker(child)
  return {
    serve: async (address, port) => (await ask({ do: 'serve', address, port })) as number,
    tcp: async (address, port) => (await ask({ do: 'tcp', address, port })) as Answer,
    udp: async (address, port, socket) =>
      (await ask({ do: 'udp', address, port, ...socket })) as Answer,
    keepTcp: async (address, port, name) =>
      (await ask({ do: 'keepTcp', address, port, name })) as Answer,
    connectUdp: async (address, port, ms) =>
      (await ask({ do: 'connectUdp', address, port, ms })) as number,
    get: async url => (await ask({ do: 'get', url })) as string,
  }
}

const asker = (child: ChildProcess): ((question: object) => Promise<unknown>) => {
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new Error('it has no pipes')
  const waiting = new Map<number, Deferred<unknown>>()
  createInterface(stdout).on('line', line => {
    const { id, answer } = JSON.parse(line) as { id: number; answer: unknown }
    waiting.get(id)?.resolve(answer)
    waiting.delete(id)
  })
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the client has ended'))
  })
  let asked = 0
  return question => {
    asked += 1
    const answer = new Deferred<unknown>()
    waiting.set(asked, answer)
    stdin.write(`${JSON.stringify({ id: asked, question })}\n`)
    return answer.promise
  }
}
